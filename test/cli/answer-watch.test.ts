import { describe, expect, it } from 'vitest'
import { AnswerWatch } from '../../cli/answer-watch.ts'

/** Whether an answer is complete once these pieces of it came. */
function completeAfter(request: string, pieces: readonly string[]): boolean {
  const watch = new AnswerWatch()
  watch.ask(Buffer.from(request))
  for (const piece of pieces) watch.hear(Buffer.from(piece, 'latin1'))
  return watch.isComplete
}

const get = 'GET / HTTP/1.1\r\n\r\n'
const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

describe('an answer on a connection that may be used again', () => {
  it.each<[string, boolean, string, string[]]>([
    ['of a length', true, get, ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello']],
    [
      'of a length, in pieces',
      true,
      get,
      ['HTTP/1.1 200 OK\r\ncontent-', 'length: 2\r\n\r', '\nh', 'i'],
    ],
    ['of a length, cut off', false, get, ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell']],
    ['longer than it says', false, get, ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello']],
    ['in chunks', true, get, [chunked, '2\r\nhi\r\n', '0\r\n\r\n']],
    ['in chunks, in single bytes', true, get, [...`${chunked}2\r\nhi\r\n0\r\n\r\n`]],
    ['in no chunk at all', true, get, [`${chunked}0\r\n\r\n`]],
    ['in chunks, cut off', false, get, [chunked, '2\r\nhi\r\n']],
    ['in chunks, of which one ends in a nought', false, get, [chunked, '3\r\nhi0\r\n\r\n']],
    ['to HEAD', true, 'HEAD / HTTP/1.1\r\n\r\n', ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n']],
    ['204', true, get, ['HTTP/1.1 204 No Content\r\n\r\n']],
    ['304 with a length', true, get, ['HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n']],
    ['after 100', true, get, ['HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 204 No\r\n\r\n']],
    ['that says close', false, get, ['HTTP/1.1 204 No\r\nConnection: close\r\n\r\n']],
    ['of neither length nor chunks', false, get, ['HTTP/1.1 200 OK\r\n\r\nhello']],
    ['that turns into a socket', false, get, ['HTTP/1.1 101 Switching Protocols\r\n\r\n']],
    [
      'whose head does not end',
      false,
      get,
      ['HTTP/1.1 200 OK\r\n', 'x'.repeat(100_000), '\r\n\r\n'],
    ],
    ['that has not begun', false, get, []],
  ])('%s: %s', (_, isComplete, request, pieces) => {
    expect(completeAfter(request, pieces)).toBe(isComplete)
  })

  it('is looked for anew with each request', () => {
    const watch = new AnswerWatch()
    expect(watch.isComplete).toBe(true)
    for (let n = 0; n < 2; n++) {
      watch.ask(Buffer.from(get))
      expect(watch.isComplete).toBe(false)
      watch.hear(Buffer.from('HTTP/1.1 204 No Content\r\n\r\n'))
      expect(watch.isComplete).toBe(true)
    }
    watch.hear(Buffer.from('nobody asked for this'))
    expect(watch.isComplete).toBe(false)
  })
})
