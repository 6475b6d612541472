import { RuntimeError } from '../../../errors.ts'
import { meant } from '../../../manifest/did-you-mean.ts'
import type { NewWords, ShownComponent } from '../../../plugin.ts'
import { isRecord } from '../../base/fields.ts'
import { readKey, readUser } from '../../jobs/input.ts'
import { readTitle } from '../titles.ts'

/** How much text, or how many bytes of a component's arguments, one message has. */
const mostBytes = 64 * 1024
const longestName = 200
const longestSession = 200

/** What a plugin says, checked. */
export interface Words {
  readonly did: string
  readonly plugin: string
  readonly session?: string
  readonly key?: string
  readonly title?: string
  /** Empty where a component is shown. */
  readonly text: string
  readonly component?: ShownComponent
  readonly notify: boolean
}

const refused = (message: string, hint?: string) =>
  new RuntimeError('INPUT_INVALID', message, { hint })

/** The DID of the user whom a plugin names. */
export function readDid(what: string, user: unknown): string {
  const inside = what.charAt(0).toLowerCase() + what.slice(1)
  const did = isRecord(user) ? readUser(inside, user.did) : undefined
  if (did !== undefined) return did
  throw refused(`${what} needs a user.`, 'Pass a user of ctx, or { did }.')
}

/** Refuses a field that is none: it is a misspelt one, and would count for nothing. */
export function refuseUnknown(what: string, given: object, names: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !names.includes(name))
  if (unknown === undefined) return
  throw refused(
    `${what} "${unknown.slice(0, 64)}".`,
    meant(unknown, names) || `There are ${names.join(', ')}.`,
  )
}

const wordNames = ['user', 'session', 'text', 'component', 'key', 'title', 'notify']

/** What a plugin wants to say, checked. */
export function readNewWords(plugin: string, words: NewWords): Words {
  const what = `A message of plugin ${plugin}`
  if (!isRecord(words))
    throw refused(`${what} is ${String(words).slice(0, 40)}.`, 'Pass { user, text }.')
  refuseUnknown(`${what} has`, words, wordNames)
  const { user, session, text, component, key, title, notify } = words
  if ((text === undefined) === (component === undefined))
    throw refused(`${what} has a text or a component, and one of the two only.`)
  if (session !== undefined && !isSessionId(session))
    throw refused(`The session of a message of plugin ${plugin} is not the id of one.`)
  return {
    did: readDid(what, user),
    plugin,
    session,
    key: readKey(`a message of plugin ${plugin}`, key),
    title: title === undefined ? undefined : readTitle(title),
    text: text === undefined ? '' : readText(what, text),
    component: component === undefined ? undefined : readComponent(what, component),
    notify: notify !== false,
  }
}

/** PostgreSQL keeps no U+0000, and no session has a longer id. */
const isSessionId = (id: unknown) =>
  typeof id === 'string' && id !== '' && id.length <= longestSession && !/\p{Cc}/u.test(id)

function readText(what: string, text: unknown): string {
  if (typeof text !== 'string' || text.trim() === '') throw refused(`${what} has no words.`)
  const bytes = Buffer.byteLength(text)
  if (bytes <= mostBytes) return text
  throw refused(
    `${what} has ${bytes.toLocaleString('en')} bytes, and 65,536 are taken.`,
    'Say it in parts, or say where the rest is to be found.',
  )
}

function readComponent(what: string, component: unknown): ShownComponent {
  const { name, args } = isRecord(component) ? component : {}
  const isName = typeof name === 'string' && name !== '' && name.length <= longestName
  if (!isName || /\p{Cc}/u.test(name))
    throw refused(`${what} has a component without a name of 1 to ${longestName} characters.`)
  const json = jsonOf(args ?? {})
  const plain: unknown = json === undefined ? undefined : JSON.parse(json)
  if (json === undefined || !isRecord(plain))
    throw refused(`The args of component "${name}" are no JSON object.`)
  const bytes = Buffer.byteLength(json)
  if (bytes <= mostBytes) return { name, args: plain }
  throw refused(
    `The args of component "${name}" are ${bytes.toLocaleString('en')} bytes of JSON, and 65,536 are taken.`,
    'Hand the component an id, and let it ask for the rest.',
  )
}

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined // a circle or a bigint
  }
}
