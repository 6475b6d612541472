import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { onEachDatabase } from '../support/each-database.ts'
import { echoEngine, longWindedEngine } from '../support/fake-engines.ts'
import { replica, someone } from '../support/replica.ts'

await onEachDatabase('a thousand sessions, hundreds at once, with a fake engine', (where) => {
  test('each hear what is said in theirs and nothing else', async () => {
    const here = await replica({ engine: echoEngine, ...where })
    const sessions = 1_000
    const wrong: string[] = []
    const talk = async (i: number) => {
      const did = `did:key:zUser${i}`
      const message = `I am number ${i}`
      let text = ''
      let last: unknown
      const turn = await here.stream(
        `/messages/${await here.session(did)}`,
        { message },
        { Authorization: `Bearer ${did}` },
      )
      for (const { event, data } of await turn.rest()) {
        if (event === 'message') text += data.content
        last = data.status
      }
      if (text !== `${message};`.repeat(5) || last !== 'finished')
        wrong.push(`${i}: ${text} ${last}`)
    }
    // So many at a time as ten connections begin in time, also on a machine that has other work.
    const atOnce = 250
    for (let from = 0; from < sessions; from += atOnce)
      await Promise.all(Array.from({ length: atOnce }, (_, i) => talk(from + i)))
    expect(wrong).toEqual([])
  }, 60_000)
})

await onEachDatabase('an answer of five megabytes, with a fake engine', (where) => {
  test('arrives whole, is stored whole and replays whole', async () => {
    const here = await replica({ engine: longWindedEngine(5), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Tell me everything' })
    const text = (events: Awaited<ReturnType<typeof turn.rest>>) =>
      events.map(({ event, data }) => (event === 'message' ? data.content : '')).join('')
    const said = text(await turn.rest())
    expect(said).toHaveLength(5 * 1024 * 1024)
    const { messages } = (await here.call('GET', `/messages/${sessionId}`)).body
    expect(messages[1].content === said).toBe(true)
    const again = await here.stream(`/runs/${turn.headers.get('x-run-id')}`)
    expect(text(await again.rest()) === said).toBe(true)
  }, 60_000)

  test('is not piled up for a client that reads nothing, and ends all the same', async () => {
    const here = await replica({ engine: longWindedEngine(5), ...where })
    const sockets: Socket[] = []
    here.http.server.on('connection', (socket) => sockets.push(socket))
    const sessionId = await here.session()
    const body = JSON.stringify({ message: 'Tell me everything' })
    const client = connect(Number(new URL(here.url).port), '127.0.0.1')
    onTestFinished(() => void client.destroy())
    client.on('error', () => {}).pause()
    client.write(
      `POST /messages/${sessionId} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${someone}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    let messages: { content: string }[] = []
    let most = 0
    while (messages.length < 2) {
      await sleep(50)
      most = Math.max(most, ...sockets.map(({ writableLength }) => writableLength))
      ;({ messages } = (await here.call('GET', `/messages/${sessionId}`)).body)
    }
    expect(messages[1]?.content).toHaveLength(5 * 1024 * 1024)
    expect(most).toBeLessThan(256 * 1024)
  }, 60_000)
})
