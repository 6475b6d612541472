import { createApp, definePlugin, type Model, RuntimeError } from '#core'
import { keptRecovery } from './device/recovery.ts'
import { Seal } from './device/sealing.ts'
import { environment } from './environment.ts'
import { migrations, withMessagingTables } from './tables.ts'

// npm run messaging -- recovery-key: shows the key with which a new device reads what an earlier one could.
const say = (line: string) => void process.stdout.write(`${line}\n`)

/** Nobody is asked anything here, but an app has a model. */
const silent: Model = {
  id: 'silent',
  async *stream() {
    yield { type: 'text', text: '' }
  },
}

let shown: string | undefined
/** Reads the tables under the name of their plugin. */
const reader = definePlugin({
  name: 'messaging',
  summary: 'Shows the recovery key.',
  env: {
    MATRIX_ORACLE_ADMIN_USER_ID: environment.MATRIX_ORACLE_ADMIN_USER_ID,
    MATRIX_STORE_KEY: environment.MATRIX_STORE_KEY,
  },
  migrations,
  async setup({ db, env }) {
    const tables = withMessagingTables(db)
    const seal = new Seal(env.MATRIX_STORE_KEY)
    shown = (await keptRecovery(tables, seal, env.MATRIX_ORACLE_ADMIN_USER_ID))?.recoveryKey
  },
})

if (process.argv[2] !== 'recovery-key') {
  say('npm run messaging -- recovery-key')
  process.exit(2)
}
try {
  const app = await createApp({ plugins: [reader], model: silent, models: false, log: () => {} })
  await app.close()
} catch (error) {
  say(error instanceof RuntimeError ? error.message : String(error))
  process.exit(1)
}
if (shown === undefined) {
  say(
    'No recovery key was made here. Either messaging has not run yet, or the account had keys before.',
  )
  process.exit(1)
}
say(shown)
