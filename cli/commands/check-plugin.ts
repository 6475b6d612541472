import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describeVariables } from '../../core/manifest/env.ts'
import { checkManifest } from '../../core/manifest/manifest.ts'
import type { AnyPlugin, AnyRoute, AnyTool } from '../../core/plugin.ts'
import { tablesOfUsers } from '../../core/runtime/kept/tables-of-users.ts'
import { type Command, UsageError } from '../command.ts'

/** Lists what a plugin lacks before others can rely on the plugin. */
export const command: Command = {
  usage: 'check:plugin <folder>',
  example: 'oracle-runtime check:plugin plugins/field-notes',
  mostPositionals: 1,
  async run({ positionals: [folder] }) {
    if (!folder || !existsSync(join(folder, 'index.ts')))
      throw new UsageError(
        'Name the folder of a plugin, the one with its index.ts: oracle-runtime check:plugin plugins/weather',
      )
    const { name, findings } = await checkPlugin(folder)
    for (const finding of findings) console.log(`- ${finding}`)
    console.log(
      findings.length ? `\n${findings.length} things are missing.` : `${name}: nothing is missing.`,
    )
    return findings.length ? 1 : 0
  },
}

/** What makes plugins of the environment, the one of the folder first. */
type PluginsOfEnvironment = (env: Readonly<Record<string, string>>) => readonly AnyPlugin[]

/** What the plugin of a folder lacks, each as a sentence. */
export async function checkPlugin(folder: string) {
  const { default: entry } = (await import(pathToFileURL(resolve(folder, 'index.ts')).href)) as {
    default: AnyPlugin | PluginsOfEnvironment
  }
  const plugin = typeof entry === 'function' ? entry({})[0] : entry
  const findings = plugin?.definition
    ? await check(plugin, folder)
    : ['index.ts has no plugin as its default export.']
  return { name: plugin?.name, findings }
}

async function check({ name, definition }: AnyPlugin, folder: string): Promise<string[]> {
  const found = checkManifest({ name, definition }).map(({ message, hint }) =>
    `${message} ${hint ?? ''}`.trim(),
  )
  const lacks = (missing: boolean, sentence: string) => void (missing && found.push(sentence))

  const silent = definition.visibility === 'silent'
  lacks(
    !silent && !definition.whenToUse?.length,
    'The manifest has no "whenToUse": the agent chooses by it.',
  )
  lacks(
    (definition.visibility ?? 'on-demand') === 'on-demand' && !definition.examples?.length,
    'The manifest has no "examples" of what a user might say: the agent finds what is not loaded by them.',
  )
  lacks(!definition.category, 'The manifest has no "category".')
  lacks(!definition.stability, 'The manifest has no "stability".')

  if (definition.migrations && !definition.userData)
    for (const table of await tablesOfUsers(name, definition.migrations))
      found.push(
        `The table ${table} has a column "did", and there is no "userData": say what is exported of a user, and how it goes.`,
      )

  const files = await readdir(folder, { recursive: true })
  const tests = await contents(
    folder,
    files.filter((file) => /\.test\.tsx?$/.test(file)),
  )
  const readme = await readReadme(folder)
  lacks(!tests, 'There is no test beside the plugin.')
  lacks(!readme, 'There is no README.md.')
  lacks(
    readme !== '' && !/^#+ .*limit/im.test(readme),
    'The README has no section that tells the limits.',
  )

  for (const [tool, { description }] of await declared<AnyTool>(
    definition.tools,
    tests,
    'tools',
    found,
  )) {
    lacks(!tests.includes(tool), `No test calls the tool ${tool}.`)
    lacks(readme !== '' && !readme.includes(tool), `The README does not name the tool ${tool}.`)
    lacks(
      (description ?? '').length < 15,
      `The description of ${tool} is too short for a model to choose by.`,
    )
  }
  for (const [key] of await declared<AnyRoute>(definition.routes, tests, 'routes', found)) {
    const fixed = /^\S+ (.*?)(\/:|$)/.exec(key)?.[1] ?? key
    lacks(!tests.includes(fixed), `No test calls the route ${key}.`)
    lacks(readme !== '' && !readme.includes(fixed), `The README does not name the route ${key}.`)
  }
  for (const job of Object.keys(definition.jobs ?? {}))
    lacks(readme !== '' && !readme.includes(job), `The README does not name the job ${job}.`)
  for (const variable of describeVariables(name, definition.env ?? {})) {
    lacks(
      readme !== '' && !readme.includes(variable.name),
      `The README does not name the variable ${variable.name}.`,
    )
    lacks(
      !variable.description,
      `${variable.name} has no .describe(…): oracle-runtime env shows it empty.`,
    )
  }
  return found
}

/** The entries of a section. A section that is made at boot cannot be read here, so a test of the author has to name its entries. */
async function declared<T>(
  section: unknown,
  tests: string,
  kind: string,
  found: string[],
): Promise<[string, T][]> {
  if (typeof section !== 'function') return Object.entries((section ?? {}) as Record<string, T>)
  if (!tests.includes(`report`))
    found.push(`The ${kind} are made at boot: let a test look at app.report to pin their names.`)
  return []
}

/** The README with the pages of the same project that it leads to: a plugin may be told of in a larger document. */
async function readReadme(folder: string): Promise<string> {
  if (!existsSync(join(folder, 'README.md'))) return ''
  const readme = await contents(folder, ['README.md'])
  const pages = [...readme.matchAll(/\]\((?!\w+:)([^)#\s]+\.md)[^)]*\)/g)].map(([, page]) => page)
  const there = [...new Set(pages)].filter((page) => page && existsSync(join(folder, page)))
  return `${readme}\n${await contents(folder, there as string[])}`
}

async function contents(folder: string, files: readonly string[]): Promise<string> {
  return (await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))).join('\n')
}
