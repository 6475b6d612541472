import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createWallet } from '../../core/testing/wallet.ts'
import { say } from '../../core/testing/turn.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { startServer } from '../support/process.ts'

const secrets = {
  API_KEY: 'amina:amina-key-0123456789,ben:ben-key-0123456789',
  OPERATOR_TOKEN: 'ops:operator-token-0123456789',
  ORACLE_MNEMONIC: 'a server that is killed right after what it answered',
}
const bearer = (value: string) => ({ authorization: `Bearer ${value}` })
const amina = bearer('amina-key-0123456789')
const ben = bearer('ben-key-0123456789')
const operator = bearer('operator-token-0123456789')

const pin = '48213'
const words = 'the words that nobody may find again'

/** An answer, with what its audit line must say. */
interface Answered {
  readonly who: string
  readonly route: string
  readonly status: number
  readonly requestId: string
}

await onEachDatabase('a server that is killed after its answers', (where) => {
  const world = () => {
    const folder = mkdtempSync(join(tmpdir(), 'audit-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const env: Record<string, string> = {
      ...secrets,
      AUDIT_TABLE: 'on',
      DATA_DIR: folder,
      RATE_LIMIT_PER_MINUTE: '100000',
      ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
    }
    return () => {
      const server = startServer('start.js', env)
      onTestFinished(() => void server.end('SIGKILL'))
      return server
    }
  }

  /** Every line of the table, read page by page. */
  async function lines(url: string) {
    const all: any[] = [] // any: a test asserts on them
    for (;;) {
      const since = all.at(-1)?.id ?? 0
      const answer = await fetch(`${url}/audit?since=${since}&limit=100`, { headers: operator })
      const page = (await answer.text()).split('\n').filter(Boolean)
      if (page.length === 0) return all
      all.push(...page.map((line) => JSON.parse(line)))
    }
  }

  it('has left a line of every write that it answered, with its author and nothing secret', async () => {
    const start = world()
    const first = start()
    const url = await first.url
    const card = await (await fetch(`${url}/.well-known/oracle.json`)).json()
    const { did: oracleDid } = card as { did: string }
    const wallet = await createWallet()
    const answered: Answered[] = []

    async function write(
      who: string,
      route: string,
      body?: unknown,
      given?: Record<string, string>,
    ) {
      const [method = '', path = ''] = route.split(' ')
      const headers = { ...(given ?? (await wallet.headers(oracleDid))) }
      const answer = await fetch(url + path, {
        method,
        headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      const requestId = answer.headers.get('x-request-id') ?? ''
      answered.push({ who, route, status: answer.status, requestId })
      const text = await answer.text()
      return { status: answer.status, body: text.startsWith('{') ? JSON.parse(text) : text }
    }
    const dial = (text: string) =>
      fetch(`${url}/api/ussd`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          sessionId: 'dial-1',
          serviceCode: '*384#',
          phoneNumber: '+254711000789',
          text,
        }),
      }).then((answer) => answer.text())

    // People with keys: accepted and refused.
    const properties = { name: words, pin }
    const protocol = await write(
      'key:amina',
      'POST /v1/protocols',
      { type: 'Protocol', properties: { name: 'string', pin: 'string' } },
      amina,
    )
    for (const [who, headers] of [
      ['key:amina', amina],
      ['key:ben', ben],
    ] as const) {
      const thing = { type: 'Thing', protocol: protocol.body.did, properties }
      await write(who, 'POST /v1/entities', thing, headers)
      await write(who, 'POST /v1/entities', { ...thing, type: 5 }, headers)
      await write(who, 'DELETE /v1/entities/did:key:zNobody', undefined, headers)
    }
    // A user: sessions, preferences, a delegation, and the agent's own write.
    await write(wallet.did, 'PATCH /user-preferences', { communicationStyle: words })
    await write(wallet.did, 'PATCH /user-preferences', { language: 'de' })
    const session = await write(wallet.did, 'POST /sessions')
    await write(wallet.did, `DELETE /sessions/${session.body.sessionId}`)
    const { text: raw } = await wallet.delegate({ audience: oracleDid })
    await write(wallet.did, 'POST /delegation', { raw })
    const said = await say(url, () => wallet.headers(oracleDid), `Please call me Wanjiru, ${words}`)
    // Nobody: refused at the door.
    const stranger = await fetch(`${url}/v1/entities`, {
      method: 'POST',
      headers: { ...bearer('guessed-key-0123'), 'content-type': 'application/json' },
      body: '{}',
    })
    expect(stranger.status).toBe(401)
    // A phone: an account with a PIN.
    let typed = ''
    await dial(typed)
    for (const input of ['3', '1', words, '1', pin, pin])
      await dial((typed = typed === '' ? input : `${typed}*${input}`))
    // Many at once; the kill comes with the last answer.
    await Promise.all(
      Array.from({ length: 60 }, () =>
        write(wallet.did, 'PATCH /user-preferences', { language: 'fr' }),
      ),
    )
    await first.end('SIGKILL')

    const second = start()
    const kept = await lines(await second.url)
    const byRequest = new Map(kept.map((line) => [line.requestId, line]))
    const accepted = answered.filter(({ status }) => status < 400)
    const routes = new Set(accepted.map(({ route }) => route))
    expect(routes).toContain('POST /v1/entities')
    expect(routes).toContain('POST /delegation')
    expect(accepted.length).toBeGreaterThan(60)
    for (const { who, requestId, status, route } of accepted)
      expect(byRequest.get(requestId), route).toMatchObject({ who, status, outcome: 'accepted' })
    expect(kept.map(({ id }) => id)).toEqual(kept.map(({ id }) => id).toSorted((a, b) => a - b))
    const refused = kept.filter(({ outcome }) => outcome === 'refused')
    expect(refused.length).toBeGreaterThanOrEqual(4)
    const said2 = kept.filter(({ runId }) => runId === said.runId)
    expect(said2.map(({ route }) => route)).toContain('POST /messages/:sessionId')
    expect(kept.filter(({ who }) => who.includes('guessed'))).toEqual([])

    const phone = kept.filter(({ route }) => route === 'POST /api/ussd')
    expect(phone.length).toBeGreaterThan(0)
    for (const { who, what } of phone) {
      expect(who).toBe('phone:…789')
      expect(what).toMatchObject({ session: 'dial-1', screen: expect.any(String) })
    }

    const everything = JSON.stringify(kept) + first.output() + second.output()
    const known = [raw, 'key-0123456789', 'operator-token', secrets.ORACLE_MNEMONIC]
    for (const secret of known) expect(everything).not.toContain(secret)
    for (const secret of [pin, words]) expect(JSON.stringify(kept)).not.toContain(secret)
  }, 120_000)
})
