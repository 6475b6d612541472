import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import type { AppOptions } from '../../core/runtime/app.ts'
import { beTarget } from './target.ts'

/**
 * A server with one version of the runtime: a public route, the same route behind a user's token, and an agent with one
 * tool. The server imports the runtime from the folder in its arguments, so that two versions run the same bench.
 */
const [root = '', dataDir = '', endpoint = ''] = process.argv.slice(2)
const from = async (path: string) => import(pathToFileURL(join(root, path)).href)
const { definePlugin } = (await from('core/plugin.ts')) as typeof import('../../core/plugin.ts')
const { boot } = (await from('core/runtime/app.ts')) as typeof import('../../core/runtime/app.ts')

const input = z.object({ city: z.string().min(1) })
const reading = ({ city }: { city: string }) => ({
  ok: true,
  city,
  temp_c: 21.4,
  conditions: 'clear',
})

const sky = definePlugin({
  name: 'sky',
  summary: 'Weather.',
  visibility: 'always',
  tools: {
    get_weather: { description: 'Weather in a city.', effect: 'read', input, run: reading },
  },
  routes: {
    'GET /open': { auth: 'public', input, run: reading },
    'GET /locked': { input, run: reading },
  },
})

// An older version brings its models itself.
const models = (await from('plugins/models.ts').catch(() => undefined)) as
  typeof import('../../plugins/models.ts') | undefined
// A version without one of these limits ignores the variable.
const many = '1000000'
const options: AppOptions = {
  plugins: [sky],
  env: {
    NODE_ENV: 'test',
    DATA_DIR: dataDir,
    LOG_LEVEL: 'error',
    ORACLE_MNEMONIC: 'an oracle that only exists for measuring',
    MODEL: 'openai/m',
    OPENAI_BASE_URL: `http://127.0.0.1:${endpoint}`,
    RATE_LIMIT_PER_MINUTE: '100000000',
    CALLS_PER_MINUTE: '100000000',
    TURNS_AT_ONCE: many,
    TURNS_PER_DAY: many,
    TURNS_AT_ONCE_TOTAL: many,
  },
  log: (line) => console.error(line),
}
const app = await boot(options, models && { bundled: async () => models.models })
beTarget((await app.listen({ port: 0, host: '127.0.0.1' })).port)
process.once('disconnect', () => void app.close().finally(() => process.exit()))
