import { expect, it } from 'vitest'
import { rowsOf } from '../../plugins/playground/page/rows.ts'
import type { Piece } from '../../plugins/playground/page/traffic.ts'

let count = 0
const piece = (kind: Piece['kind'], title: string, text: string): Piece => ({
  ...{ id: ++count, kind, at: count, title, size: text.length, text },
})
const streamed = (nth: number, name: string, data: object) =>
  piece('sse', name, `id: ${nth}\nevent: ${name}\ndata: ${JSON.stringify(data)}`)
const told = (seq: number, eventName: string, payload: object, runId = 'r-1') =>
  piece('socket', '/ws', JSON.stringify({ eventName, payload: { runId, seq, ...payload } }))

it('tokens beside each other are one row, whichever of two ways brings them first', () => {
  const words = ['I', ' am', ' here']
  const bySocket = words.map((content, nth) => told(nth + 2, 'message', { content }))
  const byStream = words.map((content, nth) => streamed(nth + 2, 'message', { content }))
  const run = streamed(1, 'run', { runId: 'r-1' })
  const one = (all: Piece[]) =>
    rowsOf(all).map(({ name, words: said, count: of, ways, run: id }) => ({
      name,
      said,
      of,
      ways,
      id,
    }))
  const row = (ways: string[]) => [
    { name: 'run', said: undefined, of: 1, ways: ['sse'], id: 'r-1' },
    { name: 'message', said: 'I am here', of: 3, ways, id: 'r-1' },
  ]
  expect(one([run, ...byStream, ...bySocket])).toEqual(row(['sse', 'socket']))
  expect(one([run, ...bySocket, ...byStream])).toEqual(row(['socket', 'sse']))
  const inTurn = byStream.flatMap((frame, nth) => [frame, ...bySocket.slice(nth, nth + 1)])
  expect(one([run, ...inTurn])).toEqual(row(['sse', 'socket']))
})

it('a request, another event, another run and what is no JSON each have their own row', () => {
  const rows = rowsOf([
    piece('http', 'GET /health', 'ok'),
    told(1, 'message', { content: 'a' }),
    told(2, 'tool_call', { toolName: 'x' }),
    told(3, 'message', { content: 'b' }),
    told(1, 'message', { content: 'c' }, 'r-2'),
    piece('socket', '/ws', '(open)'),
    piece('socket', '/ws', '{"type":"pong"}'),
  ])
  expect(rows.map(({ words, name }) => words ?? name)).toEqual([
    undefined,
    'a',
    'tool_call',
    'b',
    'c',
    undefined,
    '/ws',
  ])
})
