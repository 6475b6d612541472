import { isDeepStrictEqual } from 'node:util'
import type { Message, Model, ModelReply } from '../../plugin.ts'
import { tools, user, type ContractCheck, type Stage } from './check.ts'
import type { HeardReply } from './hear.ts'
import { orderFindings, usageDifferences, usageFindings, usageIn } from './judge.ts'
import type { ContractSpeech } from './scene.ts'

const greeting = 'Zwölf Boxkämpfer 🥊 jagen Viktor quer über den großen Sylter Deich.'
const counted = {
  inputTokens: 1000,
  outputTokens: 60,
  cachedTokens: 400,
  cacheWriteTokens: 100,
  reasoningTokens: 20,
}
const thought = 'The user wants something. I have a tool for that.'

/** What the model hears is what the provider said, in order, with what it cost. */
export const plainWords: ContractCheck = {
  name: 'words',
  calls: 1,
  async run(stage) {
    // Three bytes in a write: chunks end in the middle of letters.
    const says = { reasoning: thought, text: greeting, usage: counted, bytesPerWrite: 3 }
    const model = await stage.open([says])
    const heard = await stage.ask(model, [user('Greet me in one short sentence.')])
    if (heard.error !== undefined)
      return stage.find(`The model fails to say a sentence (${stage.told(heard.error)}).`)
    const { content } = heard.reply
    stage.find(...orderFindings(heard.deltas))
    if (!content.trim()) stage.find('The model gives no words, but the provider sent some.')
    else if (!stage.isReal && content !== greeting)
      stage.find(`The model says "${content}" where the provider sent "${greeting}".`)
    judgeUsage(stage, heard)
  },
}

function judgeUsage(stage: Stage, { deltas }: HeardReply): void {
  const usage = usageIn(deltas)
  if (!usage) return stage.find('The model reports no usage.')
  stage.find(...usageFindings(usage))
  if (!stage.isReal) stage.find(...usageDifferences(usage, counted))
  else if (usage.inputTokens === 0 || usage.outputTokens === 0)
    stage.find('The model reports a usage of no tokens.')
}

/** Both ways of asking give the same. */
export const bothWays: ContractCheck = {
  name: 'both ways of asking',
  calls: 2,
  staged: true,
  async run(stage) {
    const says = { text: greeting, calls: [{ name: 'contract_clock' }], usage: counted }
    const model = await stage.open([says, says])
    if (!model.streamTo) stage.leave('the model has no streamTo.')
    const asked = [user('Greet me, and look at the clock.')]
    const one = await stage.ask(model, asked, { tools })
    const other = await stage.ask(model, asked, { tools }, 'streamTo')
    const error = one.error ?? other.error
    if (error !== undefined)
      return stage.find(`The model fails to say a sentence twice (${stage.told(error)}).`)
    const said = ({ reply }: HeardReply) => ({
      content: reply.content,
      calls: reply.toolCalls.map(({ name, args }) => ({ name, args })),
      usage: reply.usage,
    })
    if (!isDeepStrictEqual(said(one), said(other)))
      stage.find('The model says something else by streamTo() than by stream().')
  },
}

/** Calls that come together stay apart; a call without arguments has an empty object. */
export const parallelCalls: ContractCheck = {
  name: 'parallel calls',
  calls: 1,
  async run(stage) {
    const model = await stage.open([
      { reasoning: thought, calls: [note('red'), note('blue'), { name: 'contract_clock' }] },
    ])
    const asked = 'In one answer, call contract_note for "red" and for "blue", and contract_clock.'
    const { error, deltas, reply } = await stage.ask(model, [user(asked)], { tools })
    if (error !== undefined)
      return stage.find(`The model fails to make parallel calls (${stage.told(error)}).`)
    stage.find(...orderFindings(deltas))
    const calls = reply.toolCalls.map(({ name, args }) => `${name} ${JSON.stringify(args)}`)
    const wanted = [
      'contract_note {"word":"red"}',
      'contract_note {"word":"blue"}',
      'contract_clock {}',
    ]
    if (stage.isReal && calls.length < 2) stage.leave('the model made no parallel calls.')
    const isRight = stage.isReal
      ? calls.every((call) => wanted.includes(call))
      : isDeepStrictEqual(calls, wanted)
    if (!isRight)
      stage.find(`The model makes the calls ${calls.join(', ')} of ${wanted.join(', ')}.`)
  },
}

/** A call without arguments has an empty object. */
export const emptyArguments: ContractCheck = {
  name: 'empty arguments',
  calls: 1,
  async run(stage) {
    const model = await stage.open([{ calls: [{ name: 'contract_clock' }] }])
    const asked = [user('What time is it? Call contract_clock.')]
    const { error, reply } = await stage.ask(model, asked, { tools })
    if (error !== undefined)
      return stage.find(`The model fails to make a call without arguments (${stage.told(error)}).`)
    const [call] = reply.toolCalls
    if (!call && stage.isReal) stage.leave('the model made no call.')
    if (!isDeepStrictEqual(call?.args, {}))
      stage.find(
        `A call without arguments comes with ${JSON.stringify(call?.args) ?? 'nothing'} in place of {}.`,
      )
  },
}

/** A loop of tools keeps what the provider wants back, also after the turn. */
export const toolLoop: ContractCheck = {
  name: 'tool loop',
  calls: 4,
  run: (stage) =>
    loop(stage, [
      { reasoning: thought, calls: [note('red'), note('blue')] },
      { reasoning: 'Two are noted. One is left.', calls: [note('green')] },
      { text: 'Noted: red, blue and green.' },
      { text: 'You are welcome.' },
    ]),
}

/** Thinking that came without a signature does not break the loop. */
export const unsignedThinking: ContractCheck = {
  name: 'thinking without a signature',
  calls: 2,
  staged: true,
  run: (stage) =>
    loop(stage, [
      { reasoning: thought, unsigned: true, calls: [note('red')] },
      { text: 'Noted: red.' },
    ]),
}

/** Asks as a turn does: each answer goes back with its provider data, which was JSON twice in between. */
async function loop(stage: Stage, answers: readonly ContractSpeech[]): Promise<void> {
  const model = await stage.open(answers)
  const messages: Message[] = [
    user(
      'First call contract_note for "red" and for "blue". When both are noted call it for "green". Then say what you noted.',
    ),
  ]
  for (const nth of answers.keys()) {
    if (nth === 3) messages.push(user('Thank you.'))
    const { error, reply, deltas } = await stage.ask(model, messages, { tools })
    if (error !== undefined) return stage.find(lossOf(stage.told(error), nth + 1))
    stage.find(...orderFindings(deltas))
    messages.push(answered(model, reply))
    if (stage.isReal && nth === 0 && reply.toolCalls.length === 0)
      stage.leave('the model made no call.')
    for (const { id, name } of reply.toolCalls)
      messages.push({ role: 'tool', id: `r${id}`, toolCallId: id, name, content: '{"noted":true}' })
    if (stage.isReal && reply.toolCalls.length === 0) return
  }
}

function lossOf(why: string, nth: number): string {
  const isLoss = /signature|thinking|reasoning|encrypted|redacted/i.test(why)
  return isLoss
    ? `The model loses what its provider wants back: call ${nth} of the tool loop was refused (${why}).`
    : `Call ${nth} of the tool loop failed (${why}).`
}

/** The message of an answer as the journal keeps it and another process reads it. */
function answered(model: Model, { content, toolCalls, provider }: ModelReply): Message {
  const twice: unknown =
    provider === undefined
      ? undefined
      : JSON.parse(JSON.stringify(JSON.parse(JSON.stringify(provider))))
  return {
    role: 'assistant',
    id: 'a',
    content,
    toolCalls: toolCalls.map((call) => ({ ...call })),
    ...(twice !== undefined && { provider: { by: model.origin ?? model.id, data: twice } }),
    model: model.id,
  }
}

/** A conversation that another model began goes on. */
export const anotherModel: ContractCheck = {
  name: 'messages of another model',
  calls: 1,
  async run(stage) {
    const model = await stage.open([{ text: 'It is noted.' }])
    const { error } = await stage.ask(
      model,
      [
        user('Hello.'),
        { role: 'assistant', id: 'a1', content: 'Hello. What shall I note?', model: 'other/one' },
        user('Note "red".'),
        {
          role: 'assistant',
          id: 'a2',
          content: '',
          toolCalls: [{ id: 'Ab3dEf7hJ', name: 'contract_note', args: { word: 'red' } }],
          model: 'other/one',
        },
        {
          role: 'tool',
          id: 't',
          toolCallId: 'Ab3dEf7hJ',
          name: 'contract_note',
          content: '{"noted":true}',
        },
      ],
      { tools },
    )
    if (error !== undefined)
      stage.find(`The model cannot go on with a turn of another model (${stage.told(error)}).`)
  },
}

/** A tool that has to be called is called, also by a model that thinks. */
export const forcedTool: ContractCheck = {
  name: 'a forced tool',
  calls: 1,
  async run(stage) {
    const model = await stage.open([{ calls: [{ name: 'contract_clock' }] }])
    if (model.can?.tools === false) stage.leave('the model calls no tools.')
    const settings = { reasoning: 'high', toolChoice: { tool: 'contract_clock' } } as const
    const { error, reply } = await stage.ask(model, [user('Hello.')], { tools, settings })
    if (error !== undefined)
      return stage.find(`The model cannot be made to call a tool (${stage.told(error)}).`)
    if (!reply.toolCalls.some(({ name }) => name === 'contract_clock'))
      stage.find('The model does not call the tool that it must call.')
  },
}

/** A model that says that it gives objects gives them. */
export const objectMode: ContractCheck = {
  name: 'objects',
  calls: 1,
  async run(stage) {
    const model = await stage.open([{ text: '{"word":"red"}' }])
    if (!model.can?.object) stage.leave('the model has no mode for objects.')
    const schema = {
      type: 'object',
      properties: { word: { type: 'string' } },
      required: ['word'],
      additionalProperties: false,
    }
    const settings = { object: { name: 'colour', schema } }
    const { error, reply } = await stage.ask(model, [user('Which colour is blood?')], { settings })
    if (error !== undefined)
      return stage.find(`The model refuses to give an object (${stage.told(error)}).`)
    // Where the server has no such mode after all, the object comes as a call of its name.
    const called = reply.toolCalls.find(({ name }) => name === settings.object.name)
    const given = called ? JSON.stringify(called.args) : reply.content
    if (!/^\s*\{[^]*"word"[^]*\}\s*$/.test(given))
      stage.find(`The model gives "${given.slice(0, 100)}" where an object was asked for.`)
  },
}

const note = (word: string) => ({ name: 'contract_note', args: { word } })
