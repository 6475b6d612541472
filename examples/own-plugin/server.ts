import { createApp } from 'oracle-runtime'
import weather from 'oracle-runtime/plugins/weather'
import shoppingList from './shopping-list.ts'

// A server with a bundled plugin and a plugin of your own. The server generates API_KEY into DATA_DIR/dev.env.
await createApp({ plugins: [weather, shoppingList] }).listen()
