import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createWallet, type Wallet } from '../../core/testing/wallet.ts'
import { AppFolder, type Serving } from '../support/command-line.ts'
import { freshDatabase } from '../support/database.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { keeperText } from '../support/keeper.ts'
import { searchDatabase } from '../support/search-database.ts'
import { describeWith } from '../support/services.ts'

const operator = 'an-operator-token-of-a-test-1234567890'
const sentences = [
  'The kingfisher nests under the bridge.',
  'My sister is called Chanda.',
  'Blue 7',
]

/** A server of its own, and how users and the operator ask it. */
class Asked {
  readonly #serving: Serving
  readonly #oracle: string

  private constructor(serving: Serving, oracle: string) {
    this.#serving = serving
    this.#oracle = oracle
  }

  static async of(folder: AppFolder, env: Record<string, string>): Promise<Asked> {
    const serving = await folder.serve({ OPERATOR_TOKEN: operator, ...env })
    onTestFinished(() => serving.stop('SIGKILL'))
    const document = await (await fetch(`${serving.url}/.well-known/did.json`)).json()
    return new Asked(serving, (document as { id: string }).id)
  }

  get serving(): Serving {
    return this.#serving
  }

  async ask(wallet: Wallet, method: string, path: string, body?: object): Promise<unknown> {
    const answer = await fetch(this.#serving.url + path, {
      method,
      headers: {
        ...(await wallet.headers(this.#oracle)),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return JSON.parse(text)
  }

  async fill(wallet: Wallet, words: readonly string[]): Promise<void> {
    const made = await this.ask(wallet, 'POST', '/sessions', { title: words[0] })
    const { sessionId } = made as { sessionId: string }
    const sent = await fetch(`${this.#serving.url}/messages/${sessionId}`, {
      method: 'POST',
      headers: { ...(await wallet.headers(this.#oracle)), 'content-type': 'application/json' },
      body: JSON.stringify({ message: words[1] }),
    })
    expect(await sent.text()).toContain('done')
    await this.ask(wallet, 'POST', '/notes', { texts: words.map((each, nth) => `${each} ${nth}`) })
  }

  async erase(wallet: Wallet): Promise<string> {
    const begun = await this.ask(wallet, 'DELETE', `/me?confirm=${wallet.did}`)
    return (begun as { erasureId: string }).erasureId
  }

  async ended(erasureId: string): Promise<void> {
    const state = async () => (await fetch(`${this.#serving.url}/me/erasures/${erasureId}`)).text()
    await expect.poll(state, { timeout: 60_000 }).toContain('"done"')
  }

  async erasures(): Promise<string> {
    const headers = { authorization: `Bearer ${operator}` }
    return (await fetch(`${this.#serving.url}/erasures`, { headers })).text()
  }
}

const linesOf = (path: string) => readFileSync(path, 'utf8').trim().split('\n')

const env = { NODE_ENV: 'production', HOST: '127.0.0.1', ORACLE_MNEMONIC: 'an oracle that forgets' }

await onEachDatabase('an erasure in a server of its own', ({ databaseUrl }) => {
  it('goes on after kill -9 in its middle, and leaves nothing of its user and everything of another', async () => {
    using folder = new AppFolder(keeperText)
    const where: Record<string, string> =
      databaseUrl === undefined ? { DATA_DIR: '.data' } : { DATABASE_URL: databaseUrl }
    const file = databaseUrl ?? join(folder.path, '.data/oracle.sqlite')
    const [user, other] = [await createWallet(), await createWallet()]
    // What a killed process held is another's after a second.
    const all = { ...env, ...where, RUN_LEASE_MS: '1000' }

    const first = await Asked.of(folder, { ...all, ERASES: 'half' })
    await first.fill(user, sentences)
    await first.fill(other, ['The heron stands.', 'Mulenga', 'Red 9'])
    const others = [other.did, 'The heron stands.', 'Mulenga', 'Red 9']
    const before = await searchDatabase(file, others)
    expect(before.length).toBeGreaterThan(4)
    const erasureId = await first.erase(user)
    await first.serving.said(/in the middle of an erasure/)
    await first.serving.stop('SIGKILL')
    expect(await searchDatabase(file, [user.did])).not.toEqual([])

    const second = await Asked.of(folder, all)
    await second.ended(erasureId)
    expect(await searchDatabase(file, [user.did, ...sentences])).toEqual([])
    expect(await searchDatabase(file, others)).toEqual(before)
    await second.serving.stop()
  }, 120_000)
})

await describeWith('postgres', 'oracle-runtime erase --replay', (server) => {
  it('erases again whom a restored database has brought back, once, and nobody else', async () => {
    using folder = new AppFolder(keeperText)
    const own = await freshDatabase(server)
    onTestFinished(() => own.drop())
    const all = { ...env, DATABASE_URL: own.url }
    const [user, gone, other] = [await createWallet(), await createWallet(), await createWallet()]
    const first = await Asked.of(folder, all)
    await first.fill(user, sentences)
    await first.fill(other, ['The heron stands.', 'Mulenga', 'Red 9'])
    await first.serving.stop()
    const dump = join(folder.path, 'oracle.dump')
    const dumped = spawnSync('pg_dump', ['--format=custom', `--file=${dump}`, own.url])
    expect([dumped.status, String(dumped.stderr)]).toEqual([0, ''])

    const second = await Asked.of(folder, all)
    // Whoever came after the backup is not in it.
    await second.fill(gone, ['Nobody knows.', 'Nothing', 'None'])
    for (const wallet of [user, gone]) await second.ended(await second.erase(wallet))
    const listed = folder.write('erasures.ndjson', await second.erasures())
    await second.serving.stop()

    const restored = await freshDatabase(server)
    onTestFinished(() => restored.drop())
    const back = spawnSync('pg_restore', ['--no-owner', `--dbname=${restored.url}`, dump])
    expect([back.status, String(back.stderr)]).toEqual([0, ''])
    expect(await searchDatabase(restored.url, [user.did])).not.toEqual([])
    const before = await searchDatabase(restored.url, [other.did, 'heron', 'Mulenga'])
    const there = { ...env, DATABASE_URL: restored.url }

    const wrong = folder.write('wrong.ndjson', `${linesOf(listed)[0]}\nhello\n`)
    const refused = await folder.run(['erase', '--replay', wrong], there)
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('Line 2 of') })
    expect(await searchDatabase(restored.url, [user.did])).not.toEqual([])
    expect((await folder.run(['erase'], there)).code).toBe(2)
    expect((await folder.run(['erase', '--replay', 'none'], there)).code).toBe(2)

    const failing = await folder.run(['erase', '--replay', listed], { ...there, ERASES: 'never' })
    expect(failing).toMatchObject({ code: 1, err: expect.stringContaining('1 have not ended') })
    expect(failing.out).toContain('2 lines: 2 were unknown here, and 1 of their users were')

    // The part that failed is called again by whoever runs next.
    const third = await Asked.of(folder, there)
    for (const line of linesOf(listed)) await third.ended((JSON.parse(line) as { id: string }).id)
    await expect
      .poll(() => searchDatabase(restored.url, [user.did, ...sentences]), { timeout: 60_000 })
      .toEqual([])
    expect(await searchDatabase(restored.url, [other.did, 'heron', 'Mulenga'])).toEqual(before)
    await third.serving.stop()
    const again = await folder.run(['erase', '--replay', listed], there)
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining('0 were unknown') })
  }, 180_000)

  it('erases again in one go where nothing fails', async () => {
    using folder = new AppFolder(keeperText)
    const own = await freshDatabase(server)
    onTestFinished(() => own.drop())
    const all = { ...env, DATABASE_URL: own.url }
    const user = await createWallet()
    const first = await Asked.of(folder, all)
    await first.fill(user, sentences)
    await first.ended(await first.erase(user))
    const listed = folder.write('erasures.ndjson', await first.erasures())
    await first.serving.stop()
    const restored = await freshDatabase(server)
    onTestFinished(() => restored.drop())
    const there = { ...env, DATABASE_URL: restored.url }
    const second = await Asked.of(folder, there)
    await second.fill(user, sentences)
    await second.serving.stop()
    const { code, out } = await folder.run(['erase', '--replay', listed], there)
    expect([code, out]).toEqual([
      0,
      '1 lines: 1 were unknown here, and 1 of their users were in the database.\n',
    ])
    expect(await searchDatabase(restored.url, [user.did, ...sentences])).toEqual([])
  }, 120_000)
})
