import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { Vault } from '../kept/vault.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

const [oldKey, newKey, wrongKey] = ['ab', 'cd', 'ef'].map((two) => two.repeat(32)) as [
  string,
  string,
  string,
]

await onEachDatabase('sealing', ({ databaseUrl }) => {
  const open = new OpenMemory({ MEMORY_KEY: oldKey }, databaseUrl)

  /** Every row of every table whose name begins so, as text. */
  const everything = async (begin: string): Promise<string> => {
    const { db } = open.self
    const tables = await db.introspection.getTables()
    const texts: string[] = []
    for (const { name } of tables.filter((table) => table.name.startsWith(begin))) {
      const { rows } = await sql`select * from ${sql.table(name)}`.execute(db)
      texts.push(`${name}: ${JSON.stringify(rows)}`)
    }
    return texts.join('\n')
  }

  it('leaves no sentence, quote or value readable in any table', async () => {
    const user = await open.user()
    const written = { text: 'has a zebrafinch', about: 'my stepuncle', slot: 'pet' }
    const { id } = (await user.post('/memory', written)).body
    await user.patch(`/memory/${id}`, { text: 'has a hummingbird' })
    const { body } = await user.get('/memory/export')
    const other = await open.user()
    expect((await other.post('/memory/import', body)).body.added).toBe(1)
    open.notices('quokkatown', {
      message: 1,
      quote: 'I live in quokkatown',
      text: 'lives in quokkatown',
      kind: 'fact',
      slot: 'home',
      value: 'quokkatown',
    })
    const { sessionId } = await user.say('I live in quokkatown. The wombats sing.')
    const pending = async () => (await user.get(`/memory/sessions/${sessionId}`)).body.pending
    await expect.poll(pending, { timeout: 30_000 }).toBe(1)
    const words = /zebrafinch|hummingbird|stepuncle|quokkatown|wombats/i
    const waiting = await everything('memory_')
    expect(waiting).toContain('sealed:1:')
    expect(waiting).not.toMatch(words)
    await open.quiet(user, sessionId)
    expect(await open.texts(user)).toEqual(['lives in quokkatown', 'has a hummingbird'])
    // A vector tells what a sentence means: it is sealed as well.
    await user.say('Where do I live?')
    const vectors = () =>
      open.self.db
        .selectFrom('memory_vectors')
        .select('vector')
        .where('did', '=', user.did)
        .execute()
    await expect.poll(async () => (await vectors()).length, { timeout: 30_000 }).toBe(2)
    for (const { vector } of await vectors()) expect(vector).toMatch(/^sealed:1:/)
    const own = await everything('memory_')
    expect(own).toContain('memory_sources: [{')
    expect(own).not.toMatch(words)
    // The conversation is the kernel's, and holds what was said there; what was written by hand stands nowhere.
    const all = await everything('')
    expect(all).toContain('kernel_sessions')
    expect(all).not.toMatch(/zebrafinch|hummingbird|stepuncle/i)
  })

  it('opens by the old key, seals by the new one, knows what was erased, and refuses a wrong one', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'has a hedgehog' })
    const { did } = user
    const quote = { sessionId: 's', runId: 'r', quote: 'I have a zebu', at: open.self.now }
    const noticed = {
      text: 'has a zebu',
      kind: 'fact',
      about: 'me',
      slot: null,
      value: '',
      by: 'noticed',
    } as const
    const { id } = (await user.post('/memory', { text: 'has a zebu' })).body
    await user.delete(`/memory/${id}`)
    const vault = new Vault(newKey, oldKey)
    await vault.open(open.self.db)
    await open.app.again({ env: { MEMORY_KEY: newKey, MEMORY_KEY_PREVIOUS: oldKey } })
    await user.post('/memory', { text: 'has a tortoise' })
    expect(await open.texts(user)).toEqual(['has a tortoise', 'has a hedgehog'])
    const kept = await open.self.alone(did, (trx) =>
      open.self.memories.keep(trx, did, noticed, quote, open.self.now),
    )
    expect(kept.outcome).toBe('erased')
    const { db } = open.self
    const sealed = { code: 'MEMORY_SEALED' }
    // Each key alone opens a part, and a part is not enough.
    for (const keys of [[newKey], [oldKey], [wrongKey, newKey], [wrongKey], []])
      await expect(new Vault(...keys).open(db)).rejects.toMatchObject(sealed)
    await new Vault(oldKey, newKey).open(db)
    // Sealed anew, everything opens by the new key alone, and nothing is sealed twice.
    expect(await open.self.reseal()).toBeGreaterThan(0)
    expect(await open.self.reseal()).toBe(0)
    await new Vault(newKey).open(db)
    await expect(new Vault(oldKey).open(db)).rejects.toMatchObject(sealed)
    // With a wrong key, or none, the app does not start, and says why.
    for (const env of [{ MEMORY_KEY: wrongKey }, { MEMORY_KEY: undefined }])
      await expect(open.app.again({ env })).rejects.toThrow(/MEMORY_KEY/)
    await open.app.again({ env: { MEMORY_KEY: newKey } })
    expect(await open.texts(user)).toEqual(['has a tortoise', 'has a hedgehog'])
  })
})

it('opens a text only in its own row, and keeps a text that looks sealed', () => {
  const vault = new Vault(oldKey)
  const written = vault.write('lives in Lusaka', 'one', 'did:a')
  expect(vault.read(written, 'one', 'did:a')).toBe('lives in Lusaka')
  const sealed = expect.objectContaining({ code: 'MEMORY_SEALED' })
  for (const [id, did] of [
    ['two', 'did:a'],
    ['one', 'did:b'],
  ] as const)
    expect(() => vault.read(written, id, did)).toThrow(sealed)
  const plain = new Vault()
  for (const text of ['sealed:1:abc', 'open:1', 'open:sealed:1:'])
    expect(plain.read(plain.write(text, 'i', 'd'), 'i', 'd')).toBe(text)
})
