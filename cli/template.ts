/** The names that folders of apps and of plugins may have. */
export const isName = (name: string): boolean =>
  /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) && name.length <= 40

/**
 * A script of npm for a program that runs until a signal ends it. npm tells its shell of a signal and nobody else, so the shell
 * becomes the program. Only the shell of Windows, which knows no `exec`, gets to what stands behind the bars.
 */
const become = (command: string): string => `exec ${command} || ${command}`

/**
 * How the app starts and is tested by the Node that makes it. Before 22.18 Node reads TypeScript behind a flag alone, and does
 * not tell a file that it is what Node was started with.
 */
const ways = process.features.typescript
  ? { node: '>=22.18', start: 'node server.ts', test: 'node --test' }
  : {
      node: '>=22.13',
      start: 'oracle-runtime start',
      test: 'node --experimental-strip-types --test "**/*.test.ts"',
    }

/** The files of a new app, by their paths. `runtime` is what its package.json asks for. */
export function appFiles(name: string, runtime: string): Record<string, string> {
  return {
    'package.json': `${JSON.stringify(
      {
        name,
        version: '0.1.0',
        private: true,
        type: 'module',
        engines: { node: ways.node },
        scripts: {
          start: become(ways.start),
          dev: become('oracle-runtime dev'),
          test: ways.test,
        },
        dependencies: { 'oracle-runtime': runtime, zod: '^4.0.0' },
      },
      null,
      2,
    )}\n`,
    '.gitignore': 'node_modules\n.data\n.env\n*.sqlite\n*.keys\n',
    'server.ts': `import { defineApp, definePlugin } from 'oracle-runtime'
import playground from 'oracle-runtime/plugins/playground'
import { z } from 'zod'

const dice = definePlugin({
  name: 'dice',
  summary: 'Rolls dice.',
  visibility: 'always',
  tools: {
    roll_dice: {
      description: 'Rolls one dice with so many sides.',
      effect: 'read',
      input: z.object({ sides: z.number().int().min(2).max(100).default(6) }),
      run: ({ sides }) => ({ rolled: 1 + Math.floor(Math.random() * sides) }),
    },
  },
})

const app = defineApp({ plugins: [dice, playground] })
export default app
if (import.meta.main) await app.listen()
`,
  }
}

/** The files of a new plugin, by their paths in its folder: a table, a variable, a user's route and a tool. */
export function pluginFiles(name: string): Record<string, string> {
  const snake = name.replaceAll('-', '_')
  const capitals = snake.toUpperCase()
  const camel = camelOf(name)
  return {
    'index.ts': `import { definePlugin } from 'oracle-runtime'
import { z } from 'zod'

const note = z.object({ text: z.string().trim().min(1).max(1000).describe('What to keep') })

export default definePlugin({
  name: '${name}',
  version: '0.1.0',
  summary: 'Keeps notes of its users.',
  whenToUse: ['The user wants something kept, or asks what was kept.'],
  examples: ['Keep that the meeting is on Friday.'],
  visibility: 'always',
  stability: 'experimental',
  category: 'memory',

  env: {
    ${capitals}_MAX: z.coerce.number().int().min(1).max(10_000).default(100).describe('Notes of one user'),
  },

  migrations: {
    '001-notes': async (db) => {
      await db.schema
        .createTable('${snake}_notes')
        .addColumn('did', 'text', (column) => column.notNull())
        .addColumn('text', 'text', (column) => column.notNull())
        .execute()
      await db.schema.createIndex('${snake}_notes_did').on('${snake}_notes').column('did').execute()
    },
  },

  setup: ({ db, env }) => {
    const list = async (did: string): Promise<string[]> => {
      const notes = db.selectFrom('${snake}_notes').select('text').where('did', '=', did)
      return (await notes.execute()).map(({ text }) => String(text))
    }
    return {
      list,
      async forget(did: string): Promise<number> {
        const gone = await db.deleteFrom('${snake}_notes').where('did', '=', did).executeTakeFirst()
        return Number(gone.numDeletedRows)
      },
      async add(did: string, text: string) {
        if ((await list(did)).length >= env.${capitals}_MAX)
          return { kept: false, why: 'There are too many notes already.' }
        await db.insertInto('${snake}_notes').values({ did, text }).execute()
        return { kept: true }
      },
    }
  },

  tools: {
    ${snake}_keep: {
      description: 'Keeps a note of the user.',
      input: note,
      run: ({ text }, { self, user }) => self.add(user.did, text),
    },
  },

  routes: {
    'GET /${name}': {
      summary: 'The notes of the user who asks.',
      run: async (_, { self, user }) => ({ notes: await self.list(user.did) }),
    },
  },

  // Users may take with them what is kept of them, and have it erased.
  userData: {
    async *export(did, { self }) {
      for (const text of await self.list(did)) yield { kind: 'note', text }
    },
    erase: async (did, { self }) => ({ erased: { note: await self.forget(did) } }),
  },
})
`,
    [`${name}.test.ts`]: `import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { call, scriptedModel, testApp, type TestApp } from 'oracle-runtime/testing'
import ${camel} from './index.ts'

describe('the ${name} plugin', () => {
  let app: TestApp
  before(async () => {
    const model = scriptedModel([
      call('${snake}_keep', { text: 'The meeting is on Friday.' }),
      'It is kept.',
    ])
    app = await testApp({ plugins: [${camel}], model })
  })
  after(() => app.close())

  it('keeps in a turn what the user says, and shows it to that user alone', async () => {
    const user = await app.user()
    const turn = await user.say('Keep that the meeting is on Friday.')
    assert.equal(turn.text, 'It is kept.')
    const { body } = await user.get('/${name}')
    assert.deepEqual(body, { notes: ['The meeting is on Friday.'] })
    const another = await app.user()
    assert.deepEqual((await another.get('/${name}')).body, { notes: [] })
  })

  it('hands out what is kept of a user, and erases it', async () => {
    const user = await app.user('amina')
    await app.thread({ did: user.did }).call('${snake}_keep', { text: 'The well is dry.' })
    const lines = await user.export()
    const mine = lines.filter(({ plugin }) => plugin === '${name}')
    assert.deepEqual(mine, [{ plugin: '${name}', kind: 'note', text: 'The well is dry.' }])
    await user.erase()
    assert.deepEqual((await user.get('/${name}')).body, { notes: [] })
  })

  it('shows nothing without a credential', async () => {
    assert.equal((await app.get('/${name}')).status, 401)
  })
})
`,
    'README.md': `# ${name}

Keeps notes of its users.

## Environment

- \`${capitals}_MAX\` (100): how many notes of one user are kept.

## Tools

- \`${snake}_keep\`: keeps a note of the user.

## Routes

- \`GET /${name}\`: the notes of the user who asks.

## Limits

A note has at most 1,000 characters. A user who has \`${capitals}_MAX\` notes can keep no more.
`,
  }
}

/** Words that name no constant: those of the language, and what files that load or test a plugin call by them. */
const taken = new Set(
  (
    'arguments await break case catch class const continue debugger default delete do else enum eval export extends false ' +
    'finally for function if implements import in instanceof interface let new null package private protected public return ' +
    'static super switch this throw true try typeof undefined var void while with yield ' +
    'after afterAll app assert before beforeAll bundled call describe expect it model scriptedModel testApp z'
  ).split(' '),
)

/** A name of words joined by hyphens as the name of a constant; one that is taken gets the end Plugin. */
export const camelOf = (name: string): string => {
  const camel = name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
  return taken.has(camel) ? `${camel}Plugin` : camel
}
