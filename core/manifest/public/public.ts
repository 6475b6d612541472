import { RuntimeError } from '../../errors.ts'
import type { ToldFacts, ViewSection } from '../../plugin.ts'
import { meant } from '../did-you-mean.ts'

/** The keys of `/.well-known/oracle.json` that the runtime writes itself. `price` is not among them: a plugin may tell it. */
export const kernelFacts = ['did', 'entityDid', 'name', 'apiUrl', 'wsUrl', 'model', 'runtime']

/** How many facts and views a plugin may have, and how many headers in each list. */
const most = { facts: 20, views: 20, headers: 20 }

const faultIn = (plugin: string) => (message: string, hint: string) =>
  new RuntimeError('MANIFEST_INVALID', `Plugin ${plugin}: ${message}`, { hint })

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Faults of what the function `facts` of a plugin returned. */
export function checkFacts(plugin: string, facts: unknown): RuntimeError[] {
  const fault = faultIn(plugin)
  if (facts instanceof Promise) {
    facts.catch(() => undefined) // the fault of the boot says enough
    return [
      fault('the function "facts" returned a promise.', 'Wait in a value: key: async () => …'),
    ]
  }
  if (!isObject(facts) || Object.keys(facts).length > most.facts)
    return [
      fault(
        'the function "facts" returned no object of facts.',
        `It returns at most ${most.facts} facts by key: facts: (boot) => ({ … }).`,
      ),
    ]
  return Object.keys(facts).flatMap((key) => {
    if (kernelFacts.includes(key))
      return [fault(`"facts" has "${key}", which the runtime tells itself.`, 'Choose another key.')]
    return /^[a-z][A-Za-z0-9]{0,39}$/.test(key)
      ? []
      : [fault(`"facts" has the key "${key}".`, 'A key is one word of letters: payments.')]
  })
}

/** Faults of a section `headers`. */
export function checkHeaders(plugin: string, headers: unknown): RuntimeError[] {
  if (headers === undefined) return []
  const fault = faultIn(plugin)
  if (!isObject(headers))
    return [fault('"headers" is not an object.', 'It has two lists: { allow: [], expose: [] }.')]
  return Object.entries(headers).flatMap(([key, names]) => {
    if (key !== 'allow' && key !== 'expose')
      return [
        fault(
          `"headers" has "${key}", which is none of its lists.`,
          meant(key, ['allow', 'expose']) || 'They are allow and expose.',
        ),
      ]
    if (names === undefined) return []
    if (!Array.isArray(names) || names.length > most.headers)
      return [fault(`"headers.${key}" is no list of at most ${most.headers} names.`, 'List names.')]
    return names.flatMap((name) =>
      typeof name === 'string' && /^[A-Za-z0-9-]{1,60}$/.test(name)
        ? []
        : [
            fault(
              `"headers.${key}" has ${JSON.stringify(name)}, which is no name of a header.`,
              'A name has letters, digits and hyphens: PAYMENT-RESPONSE.',
            ),
          ],
    )
  })
}

const languages = ['en', 'sw', 'fr']

/** Faults of a section `views`. */
export function checkViews(plugin: string, views: unknown): RuntimeError[] {
  if (views === undefined) return []
  const fault = faultIn(plugin)
  if (!isObject(views) || Object.keys(views).length > most.views)
    return [fault('"views" is no object of views.', `It has at most ${most.views} views by name.`)]
  return Object.entries(views).flatMap(([name, view]) => {
    const faults: RuntimeError[] = []
    if (!/^[a-z][a-z0-9-]{0,39}$/.test(name))
      faults.push(fault(`"views" has the name "${name}".`, 'A name has lower-case words: my-view.'))
    if (!isObject(view))
      return [
        ...faults,
        fault(`"views.${name}" is no object.`, 'It has a label and a module: { label, module }.'),
      ]
    return [...faults, ...viewFaults(view).map(([at, hint]) => fault(`"views.${name}${at}`, hint))]
  })
}

/** What is wrong with the fields of a view: the rest of a sentence that begins with the view's name, and what to do. */
function viewFaults({ label, module, order, feature, within }: Record<string, unknown>) {
  const faults: (readonly [at: string, hint: string])[] = []
  const words = isObject(label) ? Object.entries(label) : []
  const isLabel = words.every(
    ([language, word]) =>
      languages.includes(language) && typeof word === 'string' && /^.{1,40}$/u.test(word),
  )
  if (!isObject(label) || typeof label.en !== 'string' || !isLabel)
    faults.push([
      '.label" is no label.',
      'It has a word in English and may have others: { en, sw, fr }.',
    ])
  if (typeof module !== 'string' || !/^(\/[A-Za-z0-9_][A-Za-z0-9_.-]*)+\.js$/.test(module))
    faults.push([
      `.module" is ${JSON.stringify(module)}.`,
      'It is the path of a JavaScript file below a web module of the plugin: /notes/view.js.',
    ])
  if (order !== undefined && !Number.isSafeInteger(order))
    faults.push([`.order" is ${JSON.stringify(order)}.`, 'It is a whole number.'])
  if (feature !== undefined && feature !== 'operator')
    faults.push([`.feature" is ${JSON.stringify(feature)}.`, 'It is "operator", or left out.'])
  if (within !== undefined && within !== 'answer' && within !== 'composer')
    faults.push([
      `.within" is ${JSON.stringify(within)}.`,
      'It is "answer" or "composer", or left out.',
    ])
  return faults
}

/** What a plugin of an app tells strangers, as far as it is known. */
interface Telling {
  readonly name: string
  readonly facts?: ToldFacts
  readonly views?: ViewSection
  /** The mounts of the plugin's web modules; undefined while its setup has not made them. */
  readonly mounts?: readonly string[]
}

/** Faults of facts and views that two plugins have, and of views whose module no web module of the plugin serves. */
export function checkTold(plugins: readonly Telling[]): RuntimeError[] {
  return [
    ...twice('fact', plugins, ({ facts }) => facts),
    ...twice('view', plugins, ({ views }) => views),
    ...plugins.flatMap(({ name, views = {}, mounts }) =>
      Object.entries(views).flatMap(([view, { module }]) =>
        mounts === undefined || mounts.some((mount) => isBelow(module, mount))
          ? []
          : [
              faultIn(name)(
                `the module ${module} of the view "${view}" lies outside of the plugin's web modules.`,
                `Put it below one of them: ${mounts.join(', ') || 'the plugin has none'}.`,
              ),
            ],
      ),
    ),
  ]
}

const isBelow = (path: string, mount: string): boolean =>
  mount === '/' || path === mount || path.startsWith(`${mount}/`)

function twice(
  what: string,
  plugins: readonly Telling[],
  read: (plugin: Telling) => object | undefined,
): RuntimeError[] {
  const owners = new Map<string, string>()
  const faults: RuntimeError[] = []
  for (const plugin of plugins)
    for (const key of Object.keys(read(plugin) ?? {})) {
      const first = owners.get(key)
      if (first === undefined) owners.set(key, plugin.name)
      else
        faults.push(
          new RuntimeError(
            'MANIFEST_INVALID',
            `Both ${first} and ${plugin.name} have the ${what} "${key}".`,
            { hint: 'Rename one, or switch one of the plugins off in FEATURES.' },
          ),
        )
    }
  return faults
}
