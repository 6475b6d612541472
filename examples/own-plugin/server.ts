import { createApp } from 'oracle-runtime'
import weather from 'oracle-runtime/plugins/weather'
import shoppingList from './shopping-list.ts'

// A bundled plugin and one's own, side by side. API_KEY is generated into DATA_DIR/dev.env.
await createApp({ plugins: [weather, shoppingList] }).listen()
