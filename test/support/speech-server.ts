import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

/** How a speech server may be unwell. */
export const illnesses = [
  '401',
  '429',
  '500',
  'silent',
  'half a stream',
  'garbage',
  'dead in the middle',
] as const
export type Illness = (typeof illnesses)[number]

/** A fake of a speech service with the published API of OpenAI's, at the network's edge. It is well, or unwell in one way. */
export class SpeechServer {
  illness: Illness | undefined
  /** What was sent to be understood, and to be spoken. */
  readonly heard: Buffer[] = []
  readonly spoken: string[] = []
  words = 'What time is it?'
  readonly #server = createServer((request, response) => void this.#answer(request, response))

  static async start(): Promise<SpeechServer> {
    const server = new SpeechServer()
    server.#server.listen(0, '127.0.0.1')
    await once(server.#server, 'listening')
    onTestFinished(() => {
      server.#server.closeAllConnections()
      server.#server.close()
    })
    return server
  }

  get host(): string {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('It does not listen.')
    return `127.0.0.1:${address.port}`
  }

  get url(): string {
    return `http://${this.host}/v1`
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request)
    const isHearing = request.url === '/v1/audio/transcriptions'
    if (isHearing) this.heard.push(body)
    else this.spoken.push(JSON.parse(body.toString('utf8')).input)
    const { illness } = this
    if (illness === 'silent') return
    const status = Number(illness)
    if (status > 0) {
      response.writeHead(status, { 'content-type': 'application/json' })
      return void response.end(JSON.stringify({ error: { message: 'secret of the service' } }))
    }
    if (illness === 'garbage') {
      response.writeHead(200, { 'content-type': isHearing ? 'application/json' : 'text/html' })
      return void response.end('<html>Bad gateway</html>')
    }
    if (isHearing) this.#understand(response)
    else this.#speak(response)
  }

  #understand(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`
    response.write(event({ type: 'transcript.text.delta', delta: this.words.slice(0, 8) }))
    if (this.#breaks(response)) return
    response.end(event({ type: 'transcript.text.done', text: this.words }))
  }

  /** A tone of a second, as samples of 24 kHz. */
  #speak(response: ServerResponse): void {
    const sound = Int16Array.from({ length: 24_000 }, (_, i) => 9_000 * Math.sin(i / 10))
    const bytes = Buffer.from(sound.buffer)
    response.writeHead(200, { 'content-type': 'audio/pcm' })
    response.write(bytes.subarray(0, 9_601))
    if (this.#breaks(response)) return
    response.end(bytes.subarray(9_601))
  }

  /** Ends an answer before its end, in an orderly way or not. */
  #breaks(response: ServerResponse): boolean {
    if (this.illness === 'half a stream') response.end()
    else if (this.illness === 'dead in the middle') setTimeout(() => response.destroy(), 20)
    else return false
    return true
  }
}
