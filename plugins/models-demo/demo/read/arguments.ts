import { pairsIn } from './pairs.ts'
import { byDescription, yesOrNo } from './choices.ts'
import { cue, stemsAround, wordsOf } from './cues.ts'
import { findings, withoutFindings, wordFindings, type Finding, type Kind } from './findings.ts'
import {
  asNumber,
  fits,
  isCount,
  isCounted,
  isNumeric,
  isText,
  matchesText,
  takes,
  unitOfField,
} from './fitting.ts'
import { inUtc, isAway, isTime, momentFor, momentIn, type Now } from './moments.ts'
import { isManner, manners } from './manners.ts'
import { afterOrder, explicitValue, namesIn, reported, splitList, type Name } from './phrases.ts'
import { alternativeFor, fieldsOf, type Field, type JsonSchema } from './schema.ts'
import { stem, words } from './words.ts'

/** The arguments that a sentence gives, and the required fields for which it gives none. */
export interface Filled {
  readonly args: Record<string, unknown>
  /** The required fields without a value. */
  readonly missing: readonly Field[]
}

/** A sentence of the user, with what the model needs to read values from it. */
export interface Sentence {
  readonly text: string
  /** The name of the tool. Its words are no values. */
  readonly tool: string
  /** The time that "today" and "tomorrow" count from. */
  readonly now: Now
}

/** Reads the arguments of a tool from a sentence, by what the schema of the tool says of each field. */
export function fillArguments(
  schema: JsonSchema,
  sentence: Sentence,
  found: Finding[] = findings(sentence.text, sentence.now),
): Filled {
  const room = { objects: mostObjects }
  const own = alternativeFor(schema, schema, sentence.text)
  return fillObject(own, schema, sentence, found, room, 0, writtenOut(own, sentence.text))
}

/** How many nested objects one sentence may fill. */
const mostObjects = 8
interface Room {
  objects: number
}

/** The arguments of a user who knows the tool and writes a JSON object of its fields into the sentence. */
function writtenOut(schema: JsonSchema, text: string): Record<string, unknown> {
  const object = /\{.*\}/s.exec(text)?.[0]
  if (object === undefined) return {}
  try {
    const given = Object.entries(JSON.parse(object))
    const names = new Set(fieldsOf(schema).map(({ name }) => name))
    return given.every(([name]) => names.has(name)) ? Object.fromEntries(given) : {}
  } catch {
    return {} // braces around something that is no JSON
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
  // The surest fields come first, so that a vague field does not take the value of a sure one.
  for (const field of fields) filling.set(field, spokenOut(field, sentence.text))
  filling.choose()
  for (const kind of ['did', 'url', 'email', 'uuid', 'address', 'phone', 'date'] as const)
    filling.assign(
      kind,
      filling.open((field) => takes(field, kind)),
    )
  filling.clock()
  filling.wait()
  for (const field of fields)
    if (field.type === 'array') filling.set(field, listOf(field, root, sentence, found))
  for (const field of fields)
    if (field.type === 'object')
      filling.set(field, objectOf(field, root, sentence, found, room, depth))
  filling.assign('number', filling.open(isNumeric))
  filling.write()
  return { args: filling.args, missing: missingOf(fields, filling.args) }
}

/** Fills one object: knows which fields have their values, and marks the findings that became values. */
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

  /** The fields without a value that `ofSort` accepts. */
  open(ofSort: (field: Field) => boolean): Field[] {
    return this.#fields.filter((field) => !Object.hasOwn(this.args, field.name) && ofSort(field))
  }

  /** Gives a field its value, unless it has one. */
  set(field: Field, value: unknown): void {
    if (value !== undefined && this.args[field.name] === undefined) this.args[field.name] = value
  }

  /** Fills the fields whose schema lists their values. */
  choose(): void {
    const listed = this.#fields.filter(({ schema }) => schema.enum && schema.const === undefined)
    const chosen = wordFindings(
      this.#sentence.text,
      listed.flatMap((field) => field.schema.enum ?? []),
    )
    this.#found.push(...chosen)
    this.assign('word', listed)
    for (const field of listed) this.#takeFirst(field, chosen)
    for (const field of this.open(({ schema }) => schema.members !== undefined))
      this.set(field, byDescription(field, this.#sentence))
  }

  /** Fills the fields of a time alone from what is said of a day and a time. */
  clock(): void {
    const said = this.#found.find(({ moment }) => moment?.minute !== undefined)
    if (!said?.moment) return
    for (const field of this.open(({ schema }) => isTime(schema))) {
      said.used = true
      this.set(field, momentFor(field, said.moment, this.#sentence.now))
    }
  }

  /** Fills date-times with a length of time from now, where no field takes the length itself. */
  wait(): void {
    if (this.open((field) => isNumeric(field) && unitOfField(field) !== undefined).length > 0)
      return
    for (const field of this.open(({ schema }) => schema.format === 'date-time')) {
      const away = this.#found.find(
        (one) => !one.used && one.span && isAway(this.#sentence.text, one),
      )
      if (!away?.span) return
      away.used = true
      this.set(field, momentIn(Number(away.value) * away.span.unitMs, this.#sentence.now))
    }
  }

  /** Gives the values of one form to the fields whose words stand nearest to them in the sentence. */
  assign(kind: Kind, open: readonly Field[]): void {
    const values = this.#found.filter((value) => value.kind === kind && !value.used)
    const placed = values.map((value) => ({
      value,
      around: stemsAround(this.#sentence.text, value),
    }))
    const pairs = open
      .flatMap((field) => {
        const named = wordsOf(field)
        const isTime = unitOfField(field) !== undefined
        return placed.map(({ value, around }) => ({
          field,
          value,
          // A length of time is for the field that has a unit of time, whatever words stand around.
          score:
            cue(named, around) +
            (isTime && value.span ? 3 : 0) +
            (isMoment(field, value) ? 0.5 : 0),
        }))
      })
      .filter(({ score, field, value }) => score > 0 && fits(field, value))
      .sort((a, b) => b.score - a.score)
    for (const { field, value } of pairs) this.#take(field, value)
    // When no word tells which field a value is for, the values left over go to the required fields, in order.
    const unclear = open.filter((field) => !Object.hasOwn(this.args, field.name))
    const wanting = unclear.filter((field) => field.required)
    const only = wanting.length === 0 && this.#fields.length === 1 ? unclear : wanting
    for (const field of only) this.#takeFirst(field, values)
    const things = values.filter((value) => isCounted(this.#sentence.text, value))
    for (const field of open.filter(isCount)) this.#takeFirst(field, things)
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
    // When two fields take any text, only the name of a field tells which text of the sentence is for it.
    const alone = this.#fields.filter((field) => field.required && isText(field)).length === 1
    for (const field of this.open(isText)) {
      if (field.required && alone) this.set(field, wholeFor(field, this.#sentence, this.#found))
      else if (texts.length === 1) this.set(field, toldFor(field, this.#sentence, this.#found))
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
    this.args[field.name] = this.#valueFor(field, value)
  }

  #valueFor(field: Field, value: Finding): unknown {
    const { now } = this.#sentence
    if (isNumeric(field)) return asNumber(field, value)
    if (field.type === 'string' && value.moment) return momentFor(field, value.moment, now)
    const isDate = value.kind === 'date' && field.schema.format === 'date-time'
    return isDate ? inUtc(String(value.value), now) : value.value
  }
}

/** Whether a value says in words when something is, for a field that holds nothing else. */
const isMoment = ({ schema }: Field, { moment }: Finding) =>
  moment !== undefined && (schema.format === 'date' || schema.format === 'date-time')

/** The required fields without a value and without a default. */
function missingOf(fields: readonly Field[], args: Record<string, unknown>): Field[] {
  return fields.filter(
    ({ name, required, schema }) =>
      required && !Object.hasOwn(args, name) && schema.default === undefined,
  )
}

/** The value of a field with one fixed value, or of one that takes yes or no; undefined for all other fields. */
function spokenOut({ name, type, schema }: Field, text: string): unknown {
  if (schema.const !== undefined) return schema.const
  return type === 'boolean' ? yesOrNo(name, text) : undefined
}

function explicitly(field: Field, text: string): string | undefined {
  // "collection 42" gives the value of a collectionId.
  const names = [field.name, field.name.replace(/[_-]?id$/i, '')].filter(Boolean)
  const value = names.map((name) => explicitValue(name, text)).find((one) => one !== undefined)
  return value !== undefined && matchesText(field.schema, value) ? value : undefined
}

/** A name from the sentence for a field. A field that is not required only takes a name of its own sort. */
function nameFor(field: Field, names: readonly Name[], alone: boolean): string | undefined {
  const sort = sortOf(field)
  const open = names.filter(({ text, used }) => !used && matchesText(field.schema, text))
  const name =
    open.find((one) => one.sort === sort && sort !== undefined) ??
    (field.required && (sort === 'place' || alone)
      ? open.find((one) => one.sort !== 'user' && one.sort !== 'agent' && !isManner(one.sort))
      : undefined)
  if (!name) return undefined
  name.used = true
  return name.text
}

/** The sort of name that a field holds; undefined when the field holds no name. */
export function sortOf({ name, schema }: Field): Name['sort'] {
  const own = words(name)
  const says = words(`${name} ${schema.description ?? ''}`)
  const isName = own.some((word) => ['name', 'nickname', 'username'].includes(word))
  if (isName && own.some((word) => ['user', 'my', 'caller', 'person', 'username'].includes(word)))
    return 'user'
  if (isName && own.some((word) => ['agent', 'assistant', 'bot', 'oracle'].includes(word)))
    return 'agent'
  if (own.includes('language')) return 'language'
  const manner = manners.find((one) => own.includes(one))
  // A river has a length, too.
  if (manner && (manner !== 'length' || says.some((word) => /^(answer|repl)/.test(word))))
    return manner
  if (says.some((word) => places.has(word))) return 'place'
  return isName ? 'thing' : undefined
}

const places = new Set(
  'city place location town country region area address village where'.split(' '),
)
const tasks = new Set('task question prompt request input instructions instruction'.split(' '))
const searches = new Set('query search term terms keywords'.split(' '))
const reports = new Set(
  'text message content body note description comment summary title subject topic reason what about todo reminder words'.split(
    ' ',
  ),
)

/** The sentence or a large part of it, for a field such as a task, a search query or a message. */
function wholeFor(
  field: Field,
  { text, tool }: Sentence,
  found: readonly Finding[],
): string | undefined {
  const own = words(field.name)
  const value = own.some((word) => tasks.has(word))
    ? text
    : own.some((word) => searches.has(word))
      ? afterOrder(text, tool)
      : own.some((word) => reports.has(word))
        ? (reported(withoutTimes(text, found)) ?? afterOrder(withoutTimes(text, found), tool))
        : undefined
  return value && matchesText(field.schema, value) ? value : undefined
}

/** What a sentence reports, for a field such as a message that may be left out. */
function toldFor(field: Field, { text }: Sentence, found: readonly Finding[]): string | undefined {
  if (!words(field.name).some((word) => reports.has(word))) return undefined
  const value = reported(withoutTimes(text, found))
  return value && matchesText(field.schema, value) ? value : undefined
}

/** The sentence without the times that other fields hold: "call the clinic" is left of "call the clinic in 5 minutes". */
function withoutTimes(text: string, found: readonly Finding[]): string {
  const times = found.filter(({ used, span, moment }) => used && (span ?? moment))
  return withoutFindings(text, times)
    .replace(/\b(?:in|after|within)\s{2,}/gi, ' ')
    .replace(/\s+/g, ' ')
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
  // A list that is not required takes identifiers, and other values only after its name.
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
  // A schema may contain itself, so the depth has a bound.
  if (depth > 3) return undefined
  const said = new Set(words(sentence.text).map(stem))
  const spoken = words(field.name).some((word) => said.has(stem(word)))
  if ((!field.required && !spoken) || room.objects-- <= 0) return undefined
  const own = alternativeFor(field.schema, root, sentence.text)
  const { args, missing } = fillObject(own, root, sentence, found, room, depth + 1)
  return missing.length === 0 && Object.keys(args).length > 0 ? args : undefined
}
