import { copyFile, mkdtemp, rm, readFile, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createApp, definePlugin, type Database } from '#core'
import { scriptedModel } from '#core/testing'
import { createWallet } from '../../core/testing/wallet.ts'

it('a restored backup is erased again before the server listens, whatever the file of erasures looks like', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'erased-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const [file, backup, erasures] = ['oracle.sqlite', 'backup.sqlite', 'erasures.ndjson'].map(
    (name) => join(folder, name),
  )
  const sent: string[] = []
  const seen: { db?: Database; did?: string } = {}
  const keeper = definePlugin({
    name: 'keeper',
    summary: 'Sees the database.',
    setup({ db, oracle }) {
      seen.db = db
      seen.did = oracle.did
    },
    userData: {
      async *export() {},
      erase(did) {
        sent.push(did)
        return { erased: {} }
      },
    },
  })
  const open = async () => {
    const app = await createApp({
      plugins: [keeper],
      model: scriptedModel(['Well.']),
      env: { DATA_DIR: folder, NODE_ENV: 'development', EVENT_LOOP_LIMIT_MS: '0' },
      log: () => undefined,
    })
    const sessions = async () =>
      (
        await seen
          .db!.withTables<{ kernel_sessions: { did: string } }>()
          .selectFrom('kernel_sessions')
          .select('did')
          .execute()
      ).map(({ did }) => did)
    const { url } = await app.listen({ port: 0, host: '127.0.0.1', signals: false })
    // Nobody has asked this server for anything yet.
    return { app, url, sessions, first: await sessions() }
  }

  const [user, other] = [await createWallet(), await createWallet()]
  const one = await open()
  const oracle = seen.did!
  const send = async (url: string, wallet: typeof user, method: string, path: string) =>
    fetch(`${url}${path}`, { method, headers: await wallet.headers(oracle) })
  for (const wallet of [user, other]) await send(one.url, wallet, 'POST', '/sessions')
  await one.app.close()
  await copyFile(file!, backup!)

  const two = await open()
  expect(two.first).toHaveLength(2)
  const answer = await send(two.url, user, 'DELETE', `/me?confirm=${user.did}`)
  expect(answer.status).toBe(202)
  const { erasureId } = JSON.parse(await answer.text())
  await expect
    .poll(async () => (await fetch(`${two.url}/me/erasures/${erasureId}`)).text(), {
      timeout: 30_000,
    })
    .toContain('"done"')
  expect(await two.sessions()).toEqual([other.did])
  await two.app.close()
  const kept = await readFile(erasures!, 'utf8')
  expect(kept).not.toContain(user.did)
  expect((await stat(erasures!)).mode & 0o777).toBe(0o600)

  sent.length = 0
  await copyFile(backup!, file!)
  await writeFile(erasures!, `${kept}{"id":"cut off`)
  const three = await open()
  expect(three.first).toEqual([other.did])
  expect(sent).toEqual([user.did])
  await three.app.close()

  // Who comes back is not erased again: the erasure is known by then.
  sent.length = 0
  const four = await open()
  await send(four.url, user, 'POST', '/sessions')
  await four.app.close()
  const five = await open()
  expect(five.first.sort()).toEqual([user.did, other.did].sort())
  expect(sent).toEqual([])
  await five.app.close()
})
