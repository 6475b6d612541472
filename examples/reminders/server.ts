import { createApp } from 'oracle-runtime'
import playground from 'oracle-runtime/plugins/playground'
import reminders from './reminders.ts'

// Run node server.ts, open the page that it names, and say: Remind me in one minute to call the clinic.
await createApp({ plugins: [playground, reminders] }).listen()
