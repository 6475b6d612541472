import { expect, test } from 'vitest'
import { partsOf } from '#core'
import type { TurnEvent, TurnPart } from '../../core/plugin.ts'

const where = { sessionId: 's', requestId: 'r' }
const timestamp = ''

async function* eventsOf(list: readonly [TurnEvent['event'], object][]) {
  // The events of a turn by name, as they come from a server.
  for (const [i, [event, data]] of list.entries()) yield { seq: i + 1, event, data } as TurnEvent
}

async function told(...list: [TurnEvent['event'], object][]): Promise<TurnPart[]> {
  const found: TurnPart[] = []
  for await (const part of partsOf(eventsOf(list))) found.push(part)
  return found
}

const run: [TurnEvent['event'], object] = ['run', { runId: 'a', ...where }]
const says = (content: string): [TurnEvent['event'], object] => ['message', { content, timestamp }]
const done = (status = 'finished'): [TurnEvent['event'], object] => [
  'done',
  { runId: 'a', ...where, status },
]

test('every start has its end before anything else begins', async () => {
  const call = { ...where, eventId: 'c', toolCallId: 'c', toolName: 'add', args: { a: 1 } }
  const parts = await told(
    run,
    ['reasoning', { ...where, reasoning: 'Hm.', isComplete: false, timestamp }],
    says('One '),
    says('moment.'),
    ['tool_call', { ...call, status: 'isRunning' }],
    ['tool_call', { ...call, toolCallId: 'inner', status: 'isRunning' }],
    ['tool_call', { ...call, status: 'done', output: '3' }],
    says('Three.'),
    done(),
  )
  expect(parts).toEqual([
    { type: 'reasoning-start', id: 'reasoning-1' },
    { type: 'reasoning', id: 'reasoning-1', text: 'Hm.' },
    { type: 'reasoning-end', id: 'reasoning-1' },
    { type: 'text-start', id: 'text-2' },
    { type: 'text', id: 'text-2', text: 'One ' },
    { type: 'text', id: 'text-2', text: 'moment.' },
    { type: 'text-end', id: 'text-2' },
    { type: 'call', toolCallId: 'c', toolName: 'add', args: { a: 1 } },
    { type: 'result', toolCallId: 'c', toolName: 'add', output: '3' },
    { type: 'text-start', id: 'text-3' },
    { type: 'text', id: 'text-3', text: 'Three.' },
    { type: 'text-end', id: 'text-3' },
    { type: 'end', runId: 'a', status: 'finished', usage: undefined },
  ])
})

test('the end says why the last answer ended early', async () => {
  const parts = await told(run, says('Half'), [
    'done',
    { runId: 'a', ...where, status: 'finished', ended: 'length' },
  ])
  expect(parts.at(-1)).toEqual({ type: 'end', runId: 'a', status: 'finished', ended: 'length' })
})

test('what a run waits for comes once the run stands, and not where the run was stopped', async () => {
  const interrupt: [TurnEvent['event'], object] = [
    'interrupt',
    { runId: 'a', kind: 'approval', toolCallId: 'c', toolName: 'wipe', args: {} },
  ]
  const waits = await told(run, interrupt, says('May I?'), done('waiting'))
  expect(waits.map(({ type }) => type)).toEqual([
    'text-start',
    'text',
    'text-end',
    'approval',
    'end',
  ])
  const stopped = await told(run, interrupt, done('aborted'))
  expect(stopped.map(({ type }) => type)).toEqual(['end'])
})

test('words that were told are not told again when another process goes on', async () => {
  const wordsOf = async (...list: [TurnEvent['event'], object][]) =>
    (await told(...list)).map((part) => (part.type === 'text' ? part.text : '')).join('')
  const over = (partialLength: number): [TurnEvent['event'], object] => [
    'run',
    { runId: 'a', ...where, resumed: true, partialLength },
  ]
  expect(
    await wordsOf(run, says('Hello '), says('wor'), over(6), says('world'), says('.'), done()),
  ).toBe('Hello world.')
  expect(await wordsOf(run, says('Hello wor'), over(6), says('w'), says('orld.'), done())).toBe(
    'Hello world.',
  )
  expect(await wordsOf(run, says('Hello'), over(5), says(' you.'), done())).toBe('Hello you.')
})
