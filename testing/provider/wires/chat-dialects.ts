import { fieldsIn, parsed, recordsOf, textOf, wordsOf } from '../read.ts'
import type { Provider, Spoken } from '../wire.ts'
import type { ChatFault } from './chat-check.ts'
import { callContent, lostSignature, skipSigns } from './generate-content-check.ts'

type Line = Readonly<Record<string, unknown>>

/** How a dialect of chat completions thinks: what stands in the deltas before the words, and beside each call. */
export interface Thinking {
  readonly deltas: readonly object[]
  /** What has to come back with a call of the answer. */
  readonly wanted: readonly string[]
  /** What stands beside the call of this number. */
  beside(nth: number): object
}

/** What the server of a dialect thinks aloud, and what it signs. */
export function thinkingOf(spoken: Spoken, { rules, signer }: Provider): Thinking {
  const { answer, thoughts, isSigned, isRedacted, signatureBytes, calls } = spoken
  const nothing = () => ({})
  const aloud = (field: string) =>
    thoughts.flatMap((thought) => wordsOf(thought).map((word) => ({ [field]: word })))
  switch (rules.chat) {
    case 'extra_content': {
      const signed = calls.map(({ name, json }, place) => {
        const content = callContent(name ?? '', parsed(json) ?? {})
        return signer.sign({ answer, place }, content, signatureBytes)
      })
      // Of parallel calls the first alone carries a signature.
      const beside = (nth: number) =>
        nth === 0 && isSigned ? { extra_content: { google: { thought_signature: signed[0] } } } : {}
      return { deltas: [], wanted: isSigned ? signed.slice(0, 1) : [], beside }
    }
    case 'reasoning_details': {
      const signed = thoughts.map((thought, place) =>
        signer.sign({ answer, place }, isRedacted ? '' : thought, place === 0 ? signatureBytes : 0),
      )
      const deltas = thoughts.flatMap((thought, index) => {
        const entry = { format: 'anthropic-claude-v1', index }
        if (isRedacted)
          return [detail({ type: 'reasoning.encrypted', data: signed[index], ...entry })]
        return [
          ...wordsOf(thought).map((text) => ({
            reasoning: text,
            ...detail({ type: 'reasoning.text', text, ...entry }),
          })),
          ...(isSigned
            ? [detail({ type: 'reasoning.text', signature: signed[index], ...entry })]
            : []),
        ]
      })
      return { deltas, wanted: isSigned ? signed : [], beside: nothing }
    }
    case 'reasoning_content':
      return {
        deltas: aloud('reasoning_content'),
        // Nothing is signed here: the text itself has to come back.
        wanted: thoughts.length > 0 ? [thoughts.join('')] : [],
        beside: nothing,
      }
    default:
      return { deltas: aloud('reasoning_content'), wanted: [], beside: nothing }
  }
}

const detail = (entry: object) => ({ reasoning_details: [entry] })

/** Why what came back of the server's own is not what it gave; undefined where it is. */
export function givenBackFault(lines: readonly Line[], provider: Provider): ChatFault | undefined {
  const asked = lines.findLastIndex(({ role }) => role === 'user')
  for (const [at, line] of lines.entries()) {
    if (line.role !== 'assistant') continue
    const calls = recordsOf(line.tool_calls)
    const given = { line, calls, at, isNow: at > asked }
    const fault = checks[provider.rules.chat ?? 'plain'](given, provider)
    if (fault) return fault
  }
  return undefined
}

/** A message of the assistant that came back. */
interface GivenBack {
  readonly line: Line
  readonly calls: readonly Line[]
  readonly at: number
  /** It belongs to the loop of tools that is under way. */
  readonly isNow: boolean
}

type Check = (given: GivenBack, provider: Provider) => ChatFault | undefined

const checks: Readonly<Record<NonNullable<Provider['rules']['chat']>, Check>> = {
  plain: () => undefined,

  extra_content({ calls, at, isNow }, { signer, memory }) {
    for (const [nth, call] of calls.entries()) {
      const { name, arguments: args } = fieldsIn(call.function)
      const google = fieldsIn(fieldsIn(call.extra_content).google)
      const signature = textOf(google.thought_signature)
      if (skipSigns.includes(signature)) continue
      const content = callContent(textOf(name), parsed(textOf(args)) ?? {})
      if (signature && !signer.read(signature, content))
        return { message: 'Corrupted thought signature.' }
      const isUnsigned = memory.get(textOf(call.id))?.wanted.length === 0
      if (nth === 0 && !signature && isNow && !isUnsigned)
        return { message: lostSignature(textOf(name), at + 1) }
    }
    return undefined
  },

  reasoning_details({ line, calls, at, isNow }, { signer, memory }) {
    const refused = (raw: string): ChatFault => ({ message: 'Provider returned error', raw })
    const entries = joined(recordsOf(line.reasoning_details))
    for (const [place, entry] of entries.entries()) {
      const isText = entry.type === 'reasoning.text'
      const read = isText
        ? signer.read(textOf(entry.signature), textOf(entry.text))
        : signer.read(textOf(entry.data), '')
      if (!read || read.place !== place)
        return refused(
          `messages.${at}.content.${place}: Invalid \`signature\` in \`thinking\` block`,
        )
    }
    const wanted = calls.map(({ id }) => memory.get(textOf(id))?.wanted.length ?? 0)
    if (isNow && entries.length < Math.max(0, ...wanted))
      return refused(
        `messages.${at}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`tool_use\`.`,
      )
    return undefined
  },

  reasoning_content({ line, calls, isNow }, { memory }) {
    if (!isNow || calls.length === 0) return undefined
    const known = calls.flatMap(({ id }) => memory.get(textOf(id)) ?? [])
    const given = line.reasoning_content
    // With a call of another model an empty text is enough, but the field has to be there.
    const isRight =
      known.length === 0
        ? typeof given === 'string'
        : known.every(({ wanted }) => wanted.length === 0 || wanted[0] === given)
    if (isRight) return undefined
    return {
      message: 'The `reasoning_content` in the thinking mode must be passed back to the API.',
      code: 'invalid_request_error',
    }
  },
}

/** The entries as the server streamed them, with the pieces of one entry joined. */
function joined(entries: readonly Line[]): readonly Line[] {
  const all: Line[] = []
  for (const entry of entries) {
    const last = all.at(-1)
    if (last && last.type === entry.type && last.index === entry.index && !last.signature)
      all[all.length - 1] = { ...last, ...entry, text: textOf(last.text) + textOf(entry.text) }
    else all.push(entry)
  }
  return all
}
