import { fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin, type ModelRequest } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { createWallet } from '../core/testing/wallet.ts'
import calls from '../plugins/calls/index.ts'
import { espeakVoice } from '../plugins/calls/speech/command.ts'
import { Resampler } from '../plugins/calls/speech/resample.ts'
import { CallPeer, packetsOf } from './support/call-peer.ts'

const silenceMs = 600
const patienceMs = 20_000
const frameMs = 20
/** How long a server is looked at that has nothing to do, and how long after its last call: what that has left is done by then. */
const aloneMs = 8_000
const settledMs = 15_000
const operatorToken = 'the-token-of-the-operator'
const question = 'How is the weather in Nairobi today?'
/** What a chat beside the calls asks, and what it is answered: a word each 50 ms, for ten seconds. */
const chatted = 'Tell me a long story.'
const story = { text: Array.from({ length: 200 }, (_, i) => `word${i} `), paceMs: 50 }
/** An answer of several sentences that the model takes five seconds for. */
const slow = {
  text: Array.from({ length: 50 }, (_, i) => (i % 10 === 9 ? `w${i}. ` : `w${i} `)),
  paceMs: 100,
}
const slowly = 'Say it slowly.'
const chats = 200

/** What hears and what speaks at once: what is measured is the rest. */
const instant = definePlugin({
  name: 'instant',
  summary: 'Hears and speaks at once.',
  visibility: 'silent',
  requires: [calls],
  setup({ plugins }) {
    const tone = Int16Array.from({ length: 48_000 }, (_, i) => 9_000 * Math.sin(i / 20))
    plugins.calls.speech({
      hearing: {
        ...{ name: 'instant', where: 'server' },
        open: () => ({ push() {}, end: () => Promise.resolve({ text: question }) }),
      },
      voice: {
        ...{ name: 'instant', where: 'server' },
        async *speak() {
          yield { rate: 48_000, pcm: tone.slice() }
        },
      },
    })
  },
})

/** Runs the oracle in a process of its own, so that its time contains nothing of the callers. */
async function serve(): Promise<void> {
  const app = await testApp({
    plugins: [calls, instant],
    model: scriptedModel(
      Array.from({ length: 100_000 }, () => ({ messages }: ModelRequest) => {
        const asked = JSON.stringify(messages.at(-1))
        return asked.includes(chatted) ? story : asked.includes(slowly) ? slow : 'It is sunny.'
      }),
    ),
    env: {
      NODE_ENV: 'test',
      CALLS_HEARING: 'instant',
      CALLS_VOICE: 'instant',
      TRUST_PROXY_ENABLED: 'true',
      OPERATOR_TOKEN: operatorToken,
    },
  })
  process.on('message', async () => {
    const { user, system } = process.cpuUsage()
    const headers = { authorization: `Bearer ${operatorToken}` }
    const metrics = String((await app.get('/metrics', { headers })).body)
    const lateFrames = Number(/^\S*calls_late_frames_total (\d+)/m.exec(metrics)?.[1])
    process.send!({
      ...{ cpuMs: (user + system) / 1_000, rss: process.memoryUsage().rss },
      lateFrames,
    })
  })
  process.on('disconnect', () => process.exit())
  process.send!({ url: app.url, oracleDid: app.oracleDid })
}

interface Cost {
  readonly cpuMs: number
  readonly rss: number
  /** How many frames of 20 ms went out over 20 ms late. */
  readonly lateFrames: number
}

/** What the process had used at a time. */
interface Seen extends Pick<Cost, 'cpuMs' | 'lateFrames'> {
  readonly at: number
}

/** Chats of many users beside the calls, from a process of its own: one answer after another, word by word. */
async function chat(url: string, oracleDid: string): Promise<void> {
  process.on('disconnect', () => process.exit())
  const begun = Array.from({ length: chats }, async (_, nth) => {
    const post = await userOf({ url, oracleDid })
    const { sessionId } = (await (await post('/sessions', {})).json()) as { sessionId: string }
    const talk = async () => {
      for (;;) {
        const answer = await post(`/messages/${sessionId}`, { message: chatted, stream: true })
        await answer.text()
      }
    }
    await sleep(nth * 40) // as people come: not all at once
    void talk()
  })
  await Promise.all(begun)
  await sleep(3_000)
  process.send!('ready')
}

/** The calls of a measure: how many at once, each with so many questions. */
interface Measure {
  readonly oracle: Oracle
  readonly words: readonly Uint8Array[]
  readonly count: number
  readonly questions: number
  onUp?(): Promise<void>
}

/** Lets so many people call at once; `onUp` is called when all of them are in their calls, and nobody has spoken. */
async function measured({ oracle, words, count, questions, onUp }: Measure) {
  const setUps: number[] = []
  const replies: number[] = []
  const late: number[] = []
  const up = Promise.withResolvers<void>()
  let coming = count
  const one = async (nth: number) => {
    // People neither call nor speak in chorus.
    const later = () => sleep((nth * 3_000) / count)
    await later()
    const setUp = await inCall(oracle, async (peer) => {
      if (--coming === 0) up.resolve(onUp?.())
      await up.promise
      await later()
      for (let i = 0; i < questions; i++) {
        await peer.say(words)
        const at = performance.now()
        await peer.hears(patienceMs)
        replies.push(performance.now() - at - silenceMs)
        await sleep(1_500)
      }
      for (const ms of peer.late) late.push(ms)
    })
    setUps.push(setUp)
  }
  await Promise.all(Array.from({ length: count }, (_, nth) => one(nth)))
  return { setUps, replies, late }
}

/** Measures what calls cost and how soon they are answered: alone, and beside the chats of 200 people. */
export async function benchCalls(print = console.log, counts = [1, 5, 10], questions = 4) {
  const server = fork(import.meta.filename, ['serve'])
  const [{ url, oracleDid }] = (await once(server, 'message')) as [
    { url: string; oracleDid: string },
  ]
  const cost = async () => {
    server.send('cost')
    return ((await once(server, 'message')) as [Cost])[0]
  }
  const tell = async (count: number, name: string, withoutMs = 0) => {
    const seen: Seen[] = []
    const look = async () => {
      const { cpuMs, lateFrames } = await cost()
      seen.push({ cpuMs, lateFrames, at: performance.now() })
    }
    await look()
    const { setUps, replies, late } = await measured({
      oracle,
      words,
      count,
      questions,
      onUp: look,
    })
    await look()
    const [setUpMs = 0, callMs = 0] = seen.slice(1).map((now, nth) => {
      const before = seen[nth]!
      return (now.cpuMs - before.cpuMs - withoutMs * (now.at - before.at)) / count
    })
    const [, up, end] = seen as [Seen, Seen, Seen]
    const share = callMs / (end.at - up.at)
    const frames = (count * (end.at - up.at)) / frameMs
    const lateShare = (end.lateFrames - up.lateFrames) / frames
    const { rss } = await cost()
    print(
      `${String(count).padStart(3)} calls${name}: ${(share * 100).toFixed(1)} % of a core a call, ` +
        `set up in ${at(setUps, 0.5)} ms with ${Math.round(setUpMs)} ms of CPU, ` +
        `answered ${at(replies, 0.5)} ms (p90 ${at(replies, 0.9)}) after CALLS_SILENCE_MS, ` +
        `a packet at most ${at(late, 0.99)} ms late at the caller's (p99), ` +
        `${(lateShare * 100).toFixed(2)} % of the frames sent over 20 ms late, ${Math.round(rss / 2 ** 20)} MiB`,
    )
  }
  const silence = (await packetsOf(new Int16Array(960)))[0]!
  const words = await packetsOf(await spoken())
  const oracle = { url, oracleDid, silence }
  try {
    // The first calls import what calls need, and what is said in them is compiled: a server that runs has done both.
    for (const count of [1, 3]) await measured({ oracle, words, count, questions: 6 })
    await inCall(oracle, async (peer) => {
      const from = performance.now()
      peer.type(slowly)
      await peer.hears(patienceMs)
      print(
        `The first sentence is heard ${Math.round(performance.now() - from)} ms after a typed question; the model streams ` +
          `for ${slow.text.length * slow.paceMs} ms.`,
      )
    })
    const alone = async (what: string) => {
      const before = await cost()
      await sleep(aloneMs)
      const share = ((await cost()).cpuMs - before.cpuMs) / aloneMs
      print(`${what} alone: ${(share * 100).toFixed(1)} % of a core.`)
      return share
    }
    await sleep(settledMs)
    const idle = await alone('The server')
    for (const count of counts) await tell(count, '', idle)
    const others = fork(import.meta.filename, ['chat', url, oracleDid])
    try {
      await once(others, 'message')
      const busy = await alone(`${chats} streaming chats`)
      for (const count of counts.slice(1)) await tell(count, ` beside ${chats} chats`, busy)
    } finally {
      others.disconnect()
    }
  } finally {
    server.disconnect()
  }
}

let callers = 0

interface Oracle {
  readonly url: string
  readonly oracleDid: string
  readonly silence: Uint8Array
}

/** A new user, who asks from an address of their own: one address makes ten calls a minute. */
async function userOf({ url, oracleDid }: Pick<Oracle, 'url' | 'oracleDid'>) {
  const wallet = await createWallet()
  const place = `192.0.2.${(callers = (callers % 250) + 1)}`
  return async (path: string, body: object) => {
    const headers = {
      ...(await wallet.headers(oracleDid)),
      ...{ 'content-type': 'application/json', 'x-forwarded-for': place },
    }
    const response = await fetch(url + path, {
      ...{ method: 'POST', headers },
      body: JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return response
  }
}

/** One call of a new user. Resolves to how long it took to set it up. */
async function inCall(oracle: Oracle, work: (peer: CallPeer) => Promise<void>) {
  const post = await userOf(oracle)
  const ask = async (path: string, body: object) =>
    (await (await post(path, body)).json()) as Record<string, string>
  const { sessionId } = await ask('/sessions', {})
  const peer = new CallPeer(oracle.silence)
  const from = performance.now()
  await peer.call(async (sdp) => {
    const answer = await ask('/calls', { sessionId, callType: 'audio', sdp })
    return answer.sdp ?? ''
  })
  const setUp = performance.now() - from
  await work(peer)
  await peer.close()
  return setUp
}

async function spoken(): Promise<Int16Array> {
  const resampler = new Resampler()
  const samples: number[] = []
  const signal = AbortSignal.timeout(patienceMs)
  for await (const piece of espeakVoice().speak(question, { signal }))
    for (const sample of resampler.push(piece)) samples.push(sample)
  // Behind its last word espeak-ng is silent, and that is not to count as the person's speech.
  const end = samples.findLastIndex((sample) => Math.abs(sample) > 500)
  return Int16Array.from(samples.slice(0, end + 1))
}

const at = (values: readonly number[], share: number) =>
  Math.round(values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? NaN)

const [, , role, url = '', oracleDid = ''] = process.argv
if (role === 'serve') await serve()
else if (role === 'chat') await chat(url, oracleDid)
else if (process.argv[1] === import.meta.filename) {
  await benchCalls()
  // What is measured in a page are programs of their own, with the types of a browser.
  for (const name of ['interrupting', 'looking']) {
    const inPage = join(import.meta.dirname, `client/${name}.ts`)
    spawnSync(process.execPath, [...process.execArgv, inPage], { stdio: 'inherit' })
  }
}
