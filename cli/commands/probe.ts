import { setTimeout as sleep } from 'node:timers/promises'
import { type Command, UsageError } from '../command.ts'
import { serverAddress } from '../development-user.ts'

/** How long one answer may take. */
const answerMs = 2_000
/** The longest `--wait`, in seconds. */
const mostSeconds = 3_600
/** How much of an answer is read; a readiness is far shorter. */
const mostCharacters = 10_000

/** Asks `/readyz`, for health checks of containers and for scripts that wait until a server is up. */
export const command: Command = {
  usage: 'probe [--wait 60] [url]',
  example: 'oracle-runtime probe --wait 60 http://127.0.0.1:3000',
  notes:
    '--wait asks again for so many seconds until the server is ready. By default one question is asked.',
  options: { wait: { type: 'string' } },
  mostPositionals: 1,
  async run(words) {
    const address = words.positionals[0] ?? serverAddress()
    if (!/^https?:$/.test(URL.parse(address)?.protocol ?? ''))
      throw new UsageError(`"${address.slice(0, 200)}" is no address: give http://host:port.`)
    const wait = words.text('wait') ?? '0'
    if (!/^\d{1,4}$/.test(wait) || Number(wait) > mostSeconds)
      throw new UsageError(`--wait is "${wait.slice(0, 40)}": give seconds, 0 to ${mostSeconds}.`)
    const until = performance.now() + Number(wait) * 1000
    for (;;) {
      const fault = await notReady(address)
      if (fault === undefined) {
        console.log(`${address} is ready.`)
        return 0
      }
      if (performance.now() >= until) {
        console.error(fault)
        return 1
      }
      await sleep(Math.min(250, Math.max(1, until - performance.now())))
    }
  },
}

/** Why the server at an address is not ready; undefined when it is. */
async function notReady(address: string): Promise<string | undefined> {
  try {
    const url = new URL('/readyz', address)
    const response = await fetch(url, { signal: AbortSignal.timeout(answerMs), redirect: 'error' })
    const answer = readinessIn((await response.text()).slice(0, mostCharacters))
    if (!answer) return `What answers at ${address} is no oracle runtime (${response.status}).`
    return answer.ready
      ? undefined
      : `${address} is not ready: ${answer.why ?? 'no reason was given'}.`
  } catch (error) {
    const { cause, message } = error instanceof Error ? error : new Error(String(error))
    return `No server answers at ${address}: ${cause instanceof Error ? cause.message : message}.`
  }
}

function readinessIn(text: string): { ready: boolean; why?: string } | undefined {
  try {
    const answer: unknown = JSON.parse(text)
    if (typeof answer !== 'object' || answer === null || !('ready' in answer)) return undefined
    if (typeof answer.ready !== 'boolean') return undefined
    const why = 'why' in answer && typeof answer.why === 'string' ? answer.why : undefined
    return { ready: answer.ready, ...(why !== undefined && { why }) }
  } catch {
    return undefined
  }
}
