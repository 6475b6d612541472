import { cue, stemsAround, wordsOf } from './cues.ts'
import { findings, withoutFindings, wordFindings, type Finding, type Kind } from './findings.ts'
import { asNumber, fits, isNumeric, isText, matchesText, takes } from './fitting.ts'
import { afterOrder, explicitValue, namesIn, reported, splitList, type Name } from './phrases.ts'
import { fieldsOf, type Field, type JsonSchema } from './schema.ts'
import { stem, Stems, words } from './words.ts'

/** The arguments that were found, and the fields for which none was. */
export interface Filled {
  readonly args: Record<string, unknown>
  /** What is required and could not be read. */
  readonly missing: readonly Field[]
}

/** What somebody asked, with what is needed to read values from it. */
export interface Sentence {
  readonly text: string
  /** The tool's own words, which are not values. */
  readonly tool: string
  readonly now: Date
}

/** Reads the arguments of a tool from a sentence, by what its schema says of each. */
export function fillArguments(
  schema: JsonSchema,
  sentence: Sentence,
  found: Finding[] = findings(sentence.text, sentence.now),
): Filled {
  const room = { objects: mostObjects }
  return fillObject(schema, schema, sentence, found, room, 0, writtenOut(schema, sentence.text))
}

/** How many objects within objects are filled from one sentence. */
const mostObjects = 8
interface Room {
  objects: number
}

/** Arguments as who knows the tool writes them: an object of its fields. */
function writtenOut(schema: JsonSchema, text: string): Record<string, unknown> {
  const object = /\{.*\}/s.exec(text)?.[0]
  if (object === undefined) return {}
  try {
    const given = Object.entries(JSON.parse(object))
    const names = new Set(fieldsOf(schema).map(({ name }) => name))
    return given.every(([name]) => names.has(name)) ? Object.fromEntries(given) : {}
  } catch {
    return {} // Braces that are no JSON are words.
  }
}

function fillObject(
  schema: JsonSchema,
  root: JsonSchema,
  sentence: Sentence,
  found: Finding[],
  room: Room,
  depth = 0,
  args: Record<string, unknown> = {},
): Filled {
  const fields = fieldsOf(schema, root)
  if (Object.keys(args).length > 0) return { args, missing: missingOf(fields, args) }
  const filling = new Filling(fields, sentence, found)
  // From the surest to the vaguest, so that a vague field does not take a sure one's value.
  for (const field of fields) filling.set(field, spokenOut(field, sentence.text))
  filling.choose()
  for (const kind of ['did', 'url', 'email', 'uuid', 'phone', 'date'] as const)
    filling.assign(
      kind,
      filling.open((field) => takes(field, kind)),
    )
  for (const field of fields)
    if (field.type === 'array') filling.set(field, listOf(field, root, sentence, found))
  for (const field of fields)
    if (field.type === 'object')
      filling.set(field, objectOf(field, root, sentence, found, room, depth))
  filling.assign('number', filling.open(isNumeric))
  filling.write()
  return { args: filling.args, missing: missingOf(fields, filling.args) }
}

/** One object in the making: which fields have their values, and which findings are spent on them. */
class Filling {
  readonly args: Record<string, unknown> = {}
  readonly #fields: readonly Field[]
  readonly #sentence: Sentence
  readonly #found: Finding[]

  constructor(fields: readonly Field[], sentence: Sentence, found: Finding[]) {
    this.#fields = fields
    this.#sentence = sentence
    this.#found = found
  }

  /** The fields of a sort that have no value yet. */
  open(ofSort: (field: Field) => boolean): Field[] {
    return this.#fields.filter((field) => !Object.hasOwn(this.args, field.name) && ofSort(field))
  }

  set(field: Field, value: unknown): void {
    if (value !== undefined && this.args[field.name] === undefined) this.args[field.name] = value
  }

  /** Fills the fields that name the values they take. */
  choose(): void {
    const listed = this.#fields.filter(({ schema }) => schema.enum && schema.const === undefined)
    const chosen = wordFindings(
      this.#sentence.text,
      listed.flatMap((field) => field.schema.enum ?? []),
    )
    this.#found.push(...chosen)
    this.assign('word', listed)
    for (const field of listed) this.#takeFirst(field, chosen)
  }

  /** Gives the values of one form to the fields whose words stand nearest to them. */
  assign(kind: Kind, open: readonly Field[]): void {
    const values = this.#found.filter((value) => value.kind === kind && !value.used)
    const placed = values.map((value) => ({
      value,
      around: stemsAround(this.#sentence.text, value),
    }))
    const pairs = open
      .flatMap((field) => {
        const named = wordsOf(field)
        return placed.map(({ value, around }) => ({ field, value, score: cue(named, around) }))
      })
      .filter(({ score, field, value }) => score > 0 && fits(field, value))
      .sort((a, b) => b.score - a.score)
    for (const { field, value } of pairs) this.#take(field, value)
    // Without a word to go by: what is left over goes to what is required, in order.
    const unclear = open.filter((field) => !Object.hasOwn(this.args, field.name))
    const wanting = unclear.filter((field) => field.required)
    const only = wanting.length === 0 && this.#fields.length === 1 ? unclear : wanting
    for (const field of only) this.#takeFirst(field, values)
  }

  /** Fills the fields that take any text. */
  write(): void {
    const { text, tool } = this.#sentence
    const texts = this.open(isText)
    for (const field of texts) {
      const value = explicitly(field, text)
      this.set(field, value)
      for (const one of this.#found)
        if (one.kind === 'quoted' && one.value === value) one.used = true
    }
    this.assign('quoted', this.open(isText))
    const names = namesIn(withoutFindings(text, this.#found), tool)
    // Two texts cannot be told apart in one sentence without their names.
    const alone = this.#fields.filter((field) => field.required && isText(field)).length === 1
    for (const field of this.open(isText)) {
      if (field.required && alone) this.set(field, wholeFor(field, this.#sentence))
      this.set(field, nameFor(field, names, alone))
    }
  }

  #takeFirst(field: Field, values: readonly Finding[]): void {
    const value = values.find((one) => !one.used && fits(field, one))
    if (value) this.#take(field, value)
  }

  #take(field: Field, value: Finding): void {
    if (Object.hasOwn(this.args, field.name) || value.used) return
    value.used = true
    this.args[field.name] = isNumeric(field) ? asNumber(field, value) : value.value
  }
}

/** What is required, is not there, and has nothing to stand in for it. */
function missingOf(fields: readonly Field[], args: Record<string, unknown>): Field[] {
  return fields.filter(
    ({ name, required, schema }) =>
      required && !Object.hasOwn(args, name) && schema.default === undefined,
  )
}

/** A fixed value, or a yes or no. */
function spokenOut({ name, type, schema }: Field, text: string): unknown {
  if (schema.const !== undefined) return schema.const
  return type === 'boolean' ? yesOrNo(name, text) : undefined
}

function yesOrNo(name: string, text: string): boolean | undefined {
  const own = words(name).filter(
    (word) => !['is', 'has', 'should', 'enabled', 'enable', 'include', 'with'].includes(word),
  )
  const said = words(text)
  const stems = new Stems(said.map(stem))
  const names = new Stems(own.map(stem))
  // One word of three is chance: who asks for a sample does not ask for a smallSampleCorrection.
  const spoken = own.filter((one) => stems.likeness(stem(one)) > 0).length
  const at = said.findIndex((word) => names.likeness(stem(word)) > 0)
  if (at < 0 || (own.length > 2 && spoken < 2)) return undefined
  const before = said.slice(Math.max(0, at - 3), at)
  const next = said[at + 1]
  const isNo = before.some((word) =>
    /^(no|not|without|non|never|dont|disable|disabled|off|skip)$/.test(word),
  )
  return !isNo && !/^(off|false|no|disabled)$/.test(next ?? '')
}

function explicitly(field: Field, text: string): string | undefined {
  // "collection 42" speaks of a collectionId.
  const names = [field.name, field.name.replace(/[_-]?id$/i, '')].filter(Boolean)
  const value = names.map((name) => explicitValue(name, text)).find((one) => one !== undefined)
  return value !== undefined && matchesText(field.schema, value) ? value : undefined
}

/** A name from the sentence. A field that may be left out needs to ask for just this sort of name. */
function nameFor(field: Field, names: readonly Name[], alone: boolean): string | undefined {
  const sort = sortOf(field)
  const open = names.filter(({ text, used }) => !used && matchesText(field.schema, text))
  const name =
    open.find((one) => one.sort === sort && sort !== undefined) ??
    (field.required && (sort === 'place' || alone)
      ? open.find((one) => one.sort !== 'user' && one.sort !== 'agent')
      : undefined)
  if (!name) return undefined
  name.used = true
  return name.text
}

/** What sort of name a field holds. */
export function sortOf({ name, schema }: Field): Name['sort'] {
  const own = words(name)
  const says = words(`${name} ${schema.description ?? ''}`)
  const isName = own.some((word) => ['name', 'nickname', 'username'].includes(word))
  if (isName && own.some((word) => ['user', 'my', 'caller', 'person', 'username'].includes(word)))
    return 'user'
  if (isName && own.some((word) => ['agent', 'assistant', 'bot', 'oracle'].includes(word)))
    return 'agent'
  if (says.some((word) => places.has(word))) return 'place'
  return isName ? 'thing' : undefined
}

const places = new Set(
  'city place location town country region area address village where'.split(' '),
)
const tasks = new Set('task question prompt request input instructions instruction'.split(' '))
const searches = new Set('query search term terms keywords'.split(' '))
const reports = new Set(
  'text message content body note description comment summary title subject topic reason'.split(
    ' ',
  ),
)

/** The whole of what was said, for a field that is there to hold just that. */
function wholeFor(field: Field, { text, tool }: Sentence): string | undefined {
  const own = words(field.name)
  const value = own.some((word) => tasks.has(word))
    ? text
    : own.some((word) => searches.has(word))
      ? afterOrder(text, tool)
      : own.some((word) => reports.has(word))
        ? (reported(text) ?? afterOrder(text, tool))
        : undefined
  return value && matchesText(field.schema, value) ? value : undefined
}

function listOf(field: Field, root: JsonSchema, sentence: Sentence, found: Finding[]): unknown {
  const literal = found.find((one) => one.kind === 'json' && !one.used && Array.isArray(one.value))
  if (literal) {
    literal.used = true
    return literal.value
  }
  const [item] = fieldsOf({ properties: { [field.name]: field.schema.items ?? {} } }, root)
  if (!item) return undefined
  if (item.schema.enum) {
    const chosen = wordFindings(sentence.text, item.schema.enum).map(({ value }) => value)
    return chosen.length > 0 ? chosen : undefined
  }
  const kind = isNumeric(item)
    ? 'number'
    : takes(item, 'did') || /did/i.test(field.schema.description ?? '')
      ? 'did'
      : 'quoted'
  const values = found.filter((one) => one.kind === kind && !one.used)
  if (item.type === 'object' || (kind !== 'quoted' && values.length === 0)) return undefined
  // A list that may be left out takes identifiers, and otherwise only what is named as its own.
  if (values.length > 0 && (field.required || kind === 'did')) {
    for (const value of values) value.used = true
    return values.map((value) => (isNumeric(item) ? asNumber(item, value) : value.value))
  }
  const spoken = explicitValue(field.name, sentence.text, true)
  if (spoken !== undefined) return splitList(spoken)
  if (!field.required) return undefined
  const names = namesIn(withoutFindings(sentence.text, found), sentence.tool)
  return names.length > 0 ? names.map(({ text }) => text) : undefined
}

function objectOf(
  field: Field,
  root: JsonSchema,
  sentence: Sentence,
  found: Finding[],
  room: Room,
  depth: number,
): unknown {
  const literal = found.find(
    (one) =>
      one.kind === 'json' &&
      !one.used &&
      typeof one.value === 'object' &&
      !Array.isArray(one.value),
  )
  if (literal) {
    literal.used = true
    return literal.value
  }
  if (!field.schema.properties) return pairsIn(sentence.text)
  // A schema may hold itself.
  if (depth > 3) return undefined
  const said = new Set(words(sentence.text).map(stem))
  const spoken = words(field.name).some((word) => said.has(stem(word)))
  if ((!field.required && !spoken) || room.objects-- <= 0) return undefined
  const { args, missing } = fillObject(field.schema, root, sentence, found, room, depth + 1)
  return missing.length === 0 && Object.keys(args).length > 0 ? args : undefined
}

/** `colour=red size=5`, for objects without named properties. */
function pairsIn(text: string): Record<string, unknown> | undefined {
  const pairs = [...text.matchAll(/\b([\p{L}_]\w*)\s*=\s*("[^"]*"|[^\s,;]+)/gu)]
  if (pairs.length === 0) return undefined
  return Object.fromEntries(
    pairs.map(([, key = '', value = '']) => {
      const plain = value.replace(/^"|"$/g, '')
      return [key, plain !== '' && !Number.isNaN(Number(plain)) ? Number(plain) : plain]
    }),
  )
}
