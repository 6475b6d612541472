/** A plugin that keeps a note of each user, for servers in processes of their own. */
export const keeperText = `import { defineApp, definePlugin } from 'oracle-runtime'
import { z } from 'zod'

const keeper = definePlugin({
  name: 'keeper',
  summary: 'Keeps notes.',
  migrations: {
    '001-notes': async (db) => {
      await db.schema.createTable('keeper_notes').addColumn('did', 'text').addColumn('text', 'text').execute()
    },
  },
  setup: ({ db }) => ({ db }),
  userData: {
    async *export() {},
    async erase(did, { self }) {
      const one = self.db.selectFrom('keeper_notes').selectAll().where('did', '=', did)
      const before = (await one.execute()).length
      const { ERASES } = process.env
      if (ERASES === 'never') throw new Error('The disk of the notes is away.')
      if (ERASES === 'half') {
        await self.db.deleteFrom('keeper_notes').where('did', '=', did).where('text', 'like', '%0').execute()
        console.log('in the middle of an erasure')
        await new Promise(() => {})
      }
      await self.db.deleteFrom('keeper_notes').where('did', '=', did).execute()
      return { erased: { note: before } }
    },
  },
  routes: {
    'POST /notes': {
      input: z.object({ texts: z.array(z.string()) }),
      async run({ texts }, { user, self }) {
        const rows = texts.map((text) => ({ did: user.did, text }))
        await self.db.insertInto('keeper_notes').values(rows).execute()
        return { kept: rows.length }
      },
    },
  },
})
const app = defineApp({ plugins: [keeper] })
export default app
if (import.meta.main) await app.listen()
`
