import { randomUUID } from 'node:crypto'
import { RuntimeError, type ModelRequest } from '#core'
import { hostile, long, markdown, rightToLeft } from './texts.ts'

/** What a scene reaches of the call of a model in whose place it stands. */
export interface Stage {
  readonly request: ModelRequest
  readonly signal: AbortSignal
  readonly state: { hasPaid: boolean }
  say(words: { readonly text?: string; readonly reasoning?: string }): void
}

type Wait = (ms: number) => Promise<unknown>

/** A call of a tool, before it has an id. */
interface Call {
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

/** What a scene answers in the place of the model, beside what it has said. */
interface Reply {
  readonly content: string
  readonly toolCalls: (Call & { readonly id: string })[]
}

/** One state of a chat, from the beginning of a turn to its end: it is called in the place of every call of the model. */
export type Scene = (stage: Stage, wait: Wait) => Promise<Reply>

/** How a text is said: so many words at once, with so long a wait behind them. */
interface Pace {
  readonly words: number
  readonly ms: number
}
const usual: Pace = { words: 6, ms: 25 }

async function speak(
  stage: Stage,
  wait: Wait,
  text: string,
  { words, ms }: Pace = usual,
): Promise<void> {
  const pieces = text.match(/\S*\s*/g) ?? []
  for (let at = 0; at < pieces.length; at += words) {
    stage.say({ text: pieces.slice(at, at + words).join('') })
    await wait(ms)
  }
}

/** Said: what `stage.say` has said is the whole reply. */
const over: Reply = { content: '', toolCalls: [] }

/** Calls tools behind what was said. */
function calling(...calls: Call[]): Reply {
  return { content: '', toolCalls: calls.map((call) => ({ id: randomUUID(), ...call })) }
}

const telling =
  (text: string, pace?: Pace): Scene =>
  async (stage, wait) => {
    await speak(stage, wait, text, pace)
    return over
  }

/** How many answers the turn has had that called a tool of this plugin. */
function steps({ messages }: ModelRequest): number {
  const from = messages.findLastIndex(({ role }) => role === 'user')
  return messages
    .slice(from)
    .filter(
      (one) =>
        one.role === 'assistant' && one.toolCalls?.some(({ name }) => name !== 'load_capability'),
    ).length
}

/** Calls tools after a sentence, loads them before where that is still to do, and speaks when they have answered. */
function using(before: string, calls: readonly Call[], after: string): Scene {
  return async (stage, wait) => {
    const { request } = stage
    const isThere = ({ name }: Call) => request.tools.some((tool) => tool.name === name)
    if (steps(request) > 0) await speak(stage, wait, after)
    else if (calls.every(isThere)) {
      await speak(stage, wait, before)
      return calling(...calls)
    } else if (request.tools.some(({ name }) => name === 'load_capability'))
      return calling({ name: 'load_capability', args: { names: ['showcase'] } })
    else await speak(stage, wait, 'The tools of this scene are not offered here.')
    return over
  }
}

const isoDay = () => new Date(Date.now() + 7 * 86_400_000).toISOString().slice(0, 10)

const scenes: Readonly<Record<string, Scene>> = {
  markdown: telling(markdown),
  long: telling(long, { words: 40, ms: 10 }),
  rtl: telling(rightToLeft),
  hostile: telling(hostile),
  async thinking(stage, wait) {
    for (const thought of [
      'The person wants to see how thinking looks. ',
      'Six meters, of which one was read twice; ',
      'so the sum has to leave that one out. ',
    ]) {
      stage.say({ reasoning: thought })
      await wait(700)
    }
    await speak(stage, wait, 'The sum without the meter that was read twice is **7,412 litres**.')
    return over
  },
  progress: using(
    'I read the meters one after the other.',
    [{ name: 'read_meters', args: { district: 'Kafue' } }],
    'All six meters of Kafue are read.',
  ),
  approval: using(
    'I have written an invitation. Please look at it before it goes out.',
    [
      {
        name: 'send_invitation',
        args: { to: 'amina@example.org', day: isoDay(), seats: 2, note: 'Bring the meter book.' },
      },
    ],
    'That is done as you decided.',
  ),
  'tool-error': using(
    'I ask the pump how it is.',
    [{ name: 'break_down', args: { pump: 7 } }],
    'Pump 7 does not answer. It may be without power; ask me again later.',
  ),
  component: using(
    'Let me show you.',
    [{ name: 'show_card', args: { city: 'Lusaka' } }],
    'That is the weather of the card.',
  ),
  parallel: using(
    'I ask three districts at once.',
    ['Kafue', 'Choma', 'Mongu'].map((district) => ({ name: 'count_wells', args: { district } })),
    'All three have answered.',
  ),
  'sub-agent': using(
    'I send somebody to look.',
    [{ name: 'call_surveyor', args: { task: 'Say what you see in Kafue.' } }],
    'The surveyor is back.',
  ),
  async payment(stage, wait) {
    if (stage.state.hasPaid) {
      stage.state.hasPaid = false
      await speak(stage, wait, 'It is paid, and here is your answer. The next one costs again.')
      return over
    }
    throw new RuntimeError('PAYMENT_REQUIRED', 'Two claims are open. No money moves here.', {
      hint: 'Pay them, and the message goes out by itself.',
      details: {
        claims: [
          { claimId: 'show-1', amount: '1', denom: 'SHOW', payAt: '/showcase/pay' },
          { claimId: 'show-2', amount: '2', denom: 'SHOW', payAt: '/showcase/pay' },
        ],
      },
    })
  },
  async 'too-long'(stage, wait) {
    // Words come first: a refusal before the first word would teach the runtime a window that no model has.
    await speak(stage, wait, 'I read all of it again. ')
    throw new RuntimeError(
      'MODEL_CONTEXT_TOO_LONG',
      'The conversation is longer than the model reads.',
      { hint: 'Begin a new chat, or ask for less at once.' },
    )
  },
  async 'model-error'() {
    throw new RuntimeError('MODEL_FAILED', 'The model did not answer.', {
      hint: 'Try again in a moment.',
    })
  },
  async cut(stage, wait) {
    await speak(stage, wait, 'The answer begins, and goes on, and in the middle of a sen')
    throw new RuntimeError('MODEL_FAILED', 'The answer of the model broke off.', {
      hint: 'Ask again for the rest.',
    })
  },
  async slow(stage, wait) {
    await wait(9_000)
    await speak(stage, wait, 'That took nine seconds to begin, and each word takes its time.', {
      words: 1,
      ms: 400,
    })
    return over
  },
  takeover: telling(
    [
      'Stop the server now with kill -9 and start it again: another process takes this answer over.',
      ...Array.from({ length: 60 }, (_, nth) => `word ${nth + 1}`),
    ].join(' '),
    { words: 2, ms: 500 },
  ),
}

/** The names of the states. */
export const states = Object.keys(scenes)

const list: Scene = telling(
  `I can show:\n\n${states.map((name) => `- \`/show ${name}\``).join('\n')}`,
  { words: 1000, ms: 0 },
)

/** The scene that a message asks for; undefined for a message that asks for none. */
export function sceneOf(message: string): Scene | undefined {
  const [, name] = /^\s*\/show(?:\s+(\S+))?\s*$/.exec(message) ?? []
  if (!/^\s*\/show\b/.test(message)) return undefined
  const scene = name !== undefined && Object.hasOwn(scenes, name) ? scenes[name] : undefined
  return scene ? withHelper(scene) : list
}

/** Whoever is sent out by a scene asks a model, too, with a task in place of the person's words. */
function withHelper(scene: Scene): Scene {
  return async (stage, wait) => {
    const task = stage.request.messages.find(({ role }) => role === 'user')
    const isHelper = !stage.request.messages.some(
      ({ role, content }) => role === 'user' && /^\s*\/show\b/.test(content),
    )
    if (!isHelper || !task) return scene(stage, wait)
    if (
      steps(stage.request) === 0 &&
      stage.request.tools.some(({ name }) => name === 'count_wells')
    )
      return calling({ name: 'count_wells', args: { district: 'Kafue' } })
    stage.say({ text: 'I saw the wells of Kafue, and counted them.' })
    return over
  }
}
