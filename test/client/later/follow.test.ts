import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import type { AnyEvent } from '../../../client/core/events.ts'
import { follow } from '../../../client/later/follow.ts'
import { usualTiming } from '../../../client/core/timing.ts'
import { shortTiming } from '../oracle.ts'

/** Serves texts as event streams, one for each request; what each request came with. */
async function streams(texts: readonly string[]) {
  const asked: string[] = []
  const server = createServer((req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.end(texts[asked.length] ?? '')
    asked.push(`${req.url} ${req.headers['last-event-id'] ?? '-'}`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const heard: AnyEvent[] = []
  const runs: string[] = []
  const following = {
    signal: new AbortController().signal,
    timing: { ...usualTiming, ...shortTiming, retries: 3 },
    begin: (signal: AbortSignal) => fetch(`${url}/begin`, { method: 'POST', signal }),
    join: (runId: string, after: number, signal: AbortSignal) =>
      fetch(`${url}/${runId}`, { headers: { 'last-event-id': String(after) }, signal }),
    onRun: (runId: string) => void (runs.includes(runId) || runs.push(runId)),
    onEvent: (event: AnyEvent) => void heard.push(event),
    onConnection: () => {},
  }
  return { following, asked, heard, runs, [Symbol.dispose]: () => void server.close() }
}

const run = 'id: 1\nevent: run\ndata: {"runId":"r-1","requestId":"q"}\n\n'
const word = (id: number, content: string) =>
  `id: ${id}\nevent: message\ndata: {"content":"${content}"}\n\n`
const done = (id: number) => `id: ${id}\nevent: done\ndata: {"runId":"r-1","status":"finished"}\n\n`
const wordsIn = (heard: readonly AnyEvent[]) =>
  heard.flatMap((event) => (event.eventName === 'message' ? event.payload.content : [])).join('')

it('takes the run from its first event where a proxy keeps the header away', async () => {
  using net = await streams([run + word(2, 'a'), word(3, 'b') + done(4)])
  await follow(net.following)
  expect(net.asked).toEqual(['/begin -', '/r-1 2'])
  expect(net.runs).toEqual(['r-1'])
  expect(wordsIn(net.heard)).toBe('ab')
})

it('hears nothing twice when a server repeats, or a good-bye stands in between', async () => {
  const farewell = 'event: run\ndata: {"runId":"r-1","requestId":"q","handover":true}\n\n'
  using net = await streams([
    run + word(2, 'a') + farewell,
    run + word(2, 'a') + word(3, 'b') + farewell,
    word(3, 'b') + done(4) + word(5, 'never'),
  ])
  await follow(net.following)
  expect(net.asked).toEqual(['/begin -', '/r-1 2', '/r-1 3'])
  expect(wordsIn(net.heard)).toBe('ab')
})

it('asks again as long as there is progress, and gives up when there is none', async () => {
  using net = await streams([
    run,
    word(2, 'a'),
    word(3, 'b'),
    word(4, 'c'),
    word(5, 'd'),
    word(6, 'e'),
  ])
  await expect(follow(net.following)).rejects.toMatchObject({ code: 'stream_interrupted' })
  expect(wordsIn(net.heard)).toBe('abcde')
  expect(net.asked).toHaveLength(6 + 3)
})

it('reads lines however they end and wherever they are cut', async () => {
  using net = await streams([
    '\uFEFF: hello\r\n\r\nid: 1\r\nevent: run\r\ndata: {"runId":"r-1",\r\ndata: "requestId":"q"}\r\n\r\n' +
      'event:message\rid:2\rdata:{"content":"ü 🙂"}\r\r' +
      done(3),
  ])
  await follow(net.following)
  expect(wordsIn(net.heard)).toBe('ü 🙂')
  expect(net.runs).toEqual(['r-1'])
})
