import { afterAll, beforeAll, expect, it } from 'vitest'
import { scriptedModel, testApp, type TestApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import mcpServers from '../index.ts'
import { done, keyOf, message, send, vault } from '../../../test/support/mcp-clients.ts'

const elicitation = { elicitation: { form: {} } }
const yes = { approve: { action: 'accept', content: { approve: true } } }
const wipe = { name: 'wipe', arguments: { what: 'gold' } }

await onEachDatabase('a consent over MCP', ({ databaseUrl }) => {
  const start = (mnemonic = 'words of the tests of consents') =>
    testApp({
      plugins: [vault, mcpServers],
      model: scriptedModel([]),
      clock: true,
      env: {
        ORACLE_MNEMONIC: mnemonic,
        NODE_ENV: 'test',
        ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      },
    })
  let app: TestApp
  let user: TestUser
  let key: string
  beforeAll(async () => {
    app = await start()
    user = await app.user()
    key = await keyOf(user, 'tools/call')
  })
  afterAll(() => app?.close())

  const sending = async (params: object, { at = app, of = key, can = elicitation } = {}) => {
    const { status, body } = await send(at, of, message('tools/call', params, can))
    const { result, error } = body ?? {}
    const text: string = result?.content?.[0]?.text ?? ''
    return { status, result, error, text }
  }
  /** The state of a question, as a client gets it. */
  const asked = async (params: object = wipe, at = app) => {
    const { result } = await sending(params, { at })
    expect(result.resultType).toBe('input_required')
    return String(result.requestState)
  }
  const notRun = async (work: () => Promise<unknown>) => {
    done.length = 0
    const answer = await work()
    expect(done).toEqual([])
    return answer
  }

  it('runs the call once, and what a person sees is the call', async () => {
    done.length = 0
    const { result } = await sending(wipe)
    expect(result).toMatchObject({
      resultType: 'input_required',
      inputRequests: {
        approve: {
          method: 'elicitation/create',
          params: { message: 'May "wipe" run with {"what":"gold"}?' },
        },
      },
    })
    expect(done).toEqual([])
    const { requestState } = result
    expect((await sending({ ...wipe, requestState, inputResponses: yes })).text).toBe('wiped gold')
    expect(done).toEqual([`${user.did} gold`])
  })

  it('that a first call brings along was asked of nobody', async () => {
    const first = await notRun(() => sending({ ...wipe, inputResponses: yes }))
    expect(first).toMatchObject({ result: { resultType: 'input_required' } })
    for (const requestState of ['', 'v1', 'v1.99999999999999.x.AAAA', 'a'.repeat(5_000)])
      expect(
        await notRun(() => sending({ ...wipe, requestState, inputResponses: yes })),
      ).toMatchObject({ error: { code: -32602, data: { reason: 'invalid_request_state' } } })
    for (const requestState of [7, {}, ['v1'], null])
      expect(
        (await notRun(() => sending({ ...wipe, requestState, inputResponses: yes }))) as object,
      ).not.toMatchObject({ result: { content: expect.anything() } })
  })

  it('counts for no other arguments, tool, user or oracle', async () => {
    const requestState = await asked()
    const brought = { requestState, inputResponses: yes }
    const wrong = { error: { code: -32602, data: { reason: 'invalid_request_state' } } }
    for (const args of [{ what: 'all' }, { what: 'gold', also: 'silver' }, { what: ['gold'] }])
      expect(
        await notRun(() => sending({ name: 'wipe', arguments: args, ...brought })),
      ).toMatchObject(wrong)
    expect(await notRun(() => sending({ name: 'count', arguments: {}, ...brought }))).toMatchObject(
      wrong,
    )
    const other = await keyOf(await app.user(), 'tools/call')
    expect(await notRun(() => sending({ ...wipe, ...brought }, { of: other }))).toMatchObject(wrong)
    const tampered = requestState.replace(/\.(\d+)\./, (_, until) => `.${Number(until) + 1}.`)
    expect(
      await notRun(() => sending({ ...wipe, requestState: tampered, inputResponses: yes })),
    ).toMatchObject(wrong)
    // What was refused has used nothing: the person's own yes still counts.
    expect((await sending({ ...wipe, ...brought })).text).toBe('wiped gold')
  })

  it('is no yes unless it says so, and the question can be answered after', async () => {
    const requestState = await asked()
    for (const approve of [
      { action: 'accept', content: { approve: 'true' } },
      { action: 'accept', content: { approve: 1 } },
      { action: 'accept' },
      { action: 'decline', content: { approve: true } },
      { action: 'cancel' },
    ]) {
      const answer = notRun(() => sending({ ...wipe, requestState, inputResponses: { approve } }))
      expect(await answer).toMatchObject({ result: { isError: true } })
    }
    const without = await notRun(() => sending({ ...wipe, requestState }))
    expect(without).toMatchObject({ result: { resultType: 'input_required' } })
  })

  it('counts once, also when ten come at the same time', async () => {
    const brought = { ...wipe, requestState: await asked(), inputResponses: yes }
    done.length = 0
    const answers = await Promise.all(Array.from({ length: 10 }, () => sending(brought)))
    expect(answers.filter(({ text }) => text === 'wiped gold')).toHaveLength(1)
    expect(done).toHaveLength(1)
    expect(await notRun(() => sending(brought))).toMatchObject({
      error: { code: -32602, data: { reason: 'used_request_state' } },
    })
  })

  it('ends after ten minutes', async () => {
    const late = { ...wipe, requestState: await asked(), inputResponses: yes }
    const early = { ...wipe, requestState: await asked(), inputResponses: yes }
    await app.clock.advance('9m')
    expect((await sending(early)).text).toBe('wiped gold')
    await app.clock.advance('2m')
    expect(await notRun(() => sending(late))).toMatchObject({ error: { code: -32602 } })
    expect(await notRun(() => sending(early))).toMatchObject({ error: { code: -32602 } })
  })

  it('is not asked for where the client shows no questions', async () => {
    for (const can of [{}, { elicitation: { url: {} } }] as object[]) {
      const answer = await notRun(() => sending(wipe, { can: can as typeof elicitation }))
      expect(answer).toMatchObject({ result: { isError: true } })
      expect(JSON.stringify(answer)).toContain('let this key approve (tools/approve)')
    }
  })

  if (databaseUrl)
    it('is good on the other replica, once for both', async () => {
      const other = await start()
      try {
        const brought = { ...wipe, requestState: await asked(), inputResponses: yes }
        expect((await sending(brought, { at: other })).text).toBe('wiped gold')
        for (const at of [app, other])
          expect(await notRun(() => sending(brought, { at }))).toMatchObject({
            error: { data: { reason: 'used_request_state' } },
          })
      } finally {
        await other.close()
      }
    })
})
