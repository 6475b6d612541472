import { expect, it, onTestFinished } from 'vitest'
import { callerOf } from '../support/caller.ts'
import { onPostgres } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'
import { otlpReceiver } from '../support/otlp-receiver.ts'
import { startServer } from '../support/process.ts'

await onPostgres('two servers that send spans, one of which is killed', ({ databaseUrl }) => {
  it('leave one trace of the turn, and the second span of it links to the first', async () => {
    const receiver = await otlpReceiver()
    const start = async (name: string, env: Record<string, string> = {}) => {
      const server = startServer('test/support/spans-server.ts', {
        DATABASE_URL: databaseUrl!,
        DATA_DIR: ':memory:',
        NODE_ENV: 'test',
        ORACLE_MNEMONIC: 'words that these servers share',
        RUN_LEASE_MS: '1000',
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
        OTEL_SERVICE_NAME: name,
        // What has ended is sent at once, and not with the process.
        OTEL_BSP_SCHEDULE_DELAY: '50',
        ...env,
      })
      onTestFinished(() => void server.end('SIGKILL'))
      return { ...server, at: await server.url }
    }
    const first = await start('the first', { HOLDS: 'yes' })
    const second = await start('the second')
    const caller = await callerOf(first.at)
    const headers = async () => ({ ...(await caller.headers()) })
    const made = await fetch(`${first.at}/sessions`, { method: 'POST', headers: await headers() })
    const { sessionId } = (await made.json()) as { sessionId: string }
    const path = `${first.at}/messages/${sessionId}`
    const turn = await openStream(path, await headers(), { message: 'Look.' })
    const runId = turn.headers.get('x-run-id') ?? ''
    const rest = turn.rest().catch(() => [])
    const of = (service: string, name: string) =>
      receiver.spans.find((span) => span.service === service && span.name.startsWith(name))
    await expect.poll(first.output, { timeout: 20_000 }).toContain('the tool has begun')
    await expect.poll(() => of('the first', 'chat'), { timeout: 20_000 }).toBeDefined()
    expect(await first.end('SIGKILL')).toBe('SIGKILL')
    await rest

    const on = await openStream(`${second.at}/runs/${runId}?after=0`, await headers())
    expect((await on.rest()).at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
    const taken = () => of('the second', 'invoke_agent')
    await expect.poll(taken, { timeout: 20_000 }).toBeDefined()
    const cut = of('the first', 'chat')!
    // The span of the turn in the first server never ended: the spans within it tell its name.
    expect(of('the first', 'invoke_agent')).toBeUndefined()
    expect(taken()).toMatchObject({
      traceId: cut.traceId,
      parentSpanId: cut.parentSpanId,
      links: [{ traceId: cut.traceId, spanId: cut.parentSpanId }],
      attributes: { 'oracle.run.id': runId, 'oracle.run.status': 'finished' },
    })
    for (const name of ['execute_tool look', 'chat spans/one'])
      expect(of('the second', name)).toMatchObject({
        traceId: cut.traceId,
        parentSpanId: taken()!.spanId,
      })
  })
})
