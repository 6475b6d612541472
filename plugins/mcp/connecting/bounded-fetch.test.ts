import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { boundedFetch } from './bounded-fetch.ts'

const mib = 'x'.repeat(1024 * 1024)

async function served(type: string, answer: (res: ServerResponse) => Promise<void>) {
  const server = createServer((_, res) => {
    res.on('error', () => undefined)
    res.writeHead(200, { 'content-type': type })
    void answer(res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const times = (count: number, piece: string) => async (res: ServerResponse) => {
  for (let n = 0; n < count && !res.destroyed; n++)
    if (!res.write(piece))
      await new Promise((resolve) => res.once('drain', resolve).once('close', resolve))
  res.end()
}

test('an answer of more than 10 MiB is cut off, a smaller one is whole', async () => {
  const large = await boundedFetch(await served('application/json', times(1_000, mib)))
  await expect(large.text()).rejects.toThrow('more than 10 MiB')
  const url = await served('application/json', times(9, mib))
  const whole = await boundedFetch(url)
  expect(whole.url).toBe(url)
  expect((await whole.text()).length).toBe(9 * mib.length)
})

test('a stream may be long, and none of its events', async () => {
  const stream = 'text/event-stream'
  const long = await boundedFetch(await served(stream, times(30, `data: ${mib}\n\n`)))
  expect((await long.text()).length).toBeGreaterThan(30 * mib.length)
  const endless = await boundedFetch(await served(stream, times(1_000, `data: ${mib}\n`)))
  await expect(endless.text()).rejects.toThrow('more than 10 MiB')
})
