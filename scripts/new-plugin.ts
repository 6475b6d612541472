import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { camelOf, isName } from '../cli/template.ts'

// npm run new:plugin <name>: makes a folder with a plugin, its test and its README; the test passes at once.
const name = process.argv[2] ?? ''
if (!isName(name))
  fail(
    `"${name}" is not a plugin name. Use lower-case words joined by hyphens: npm run new:plugin bird-songs`,
  )
const folder = join('plugins', name)
if (existsSync(folder))
  fail(`${folder} exists already. Choose another name, or delete the folder first.`)

const snake = name.replaceAll('-', '_')
const camel = camelOf(name)
const title = name.charAt(0).toUpperCase() + name.slice(1).replaceAll('-', ' ')

const files: Record<string, string> = {
  'index.ts': `import { z } from 'zod'
import { definePlugin } from '#core'

const greeting = z.object({ name: z.string().trim().min(1).max(80).describe('Who to greet') })

export default definePlugin({
  name: '${name}',
  version: '0.1.0',
  summary: 'Greets people by name.',
  whenToUse: ['The user wants somebody greeted.'],
  examples: ['Greet Amina.'],
  visibility: 'on-demand',
  stability: 'experimental',
  category: 'communication',

  setup: () => ({ greet: (name: string) => \`Hello, \${name}!\` }),

  tools: {
    ${snake}_greet: {
      description: 'Makes a greeting for one person.',
      effect: 'read',
      input: greeting,
      run: ({ name }, { self }) => ({ greeting: self.greet(name) }),
    },
  },

  routes: {
    'GET /${name}/greeting': {
      auth: 'public',
      summary: 'A greeting for one person.',
      input: greeting,
      run: ({ name }, { self }) => ({ greeting: self.greet(name) }),
    },
  },
})
`,
  [`${name}.test.ts`]: `import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import ${camel} from './index.ts'

describe('the ${name} plugin', () => {
  let app: TestApp
  beforeAll(async () => {
    app = await testApp({ plugins: [${camel}] })
  })
  afterAll(() => app.close())

  it('greets over HTTP', async () => {
    const response = await app.get('/${name}/greeting?name=Amina')
    expect(response.status).toBe(200)
    expect(response.body).toEqual({ greeting: 'Hello, Amina!' })
  })

  it('says which field is missing', async () => {
    const response = await app.get('/${name}/greeting')
    expect(response.status).toBe(400)
    expect(response.body.code).toBe('INVALID_INPUT')
    expect(response.body.message).toContain('name')
  })

  it('gives the agent its tool once it is loaded', async () => {
    const thread = app.thread()
    await expect(thread.call('${snake}_greet', { name: 'Amina' })).rejects.toThrow('not loaded')
    expect(await thread.load('${name}').call('${snake}_greet', { name: 'Amina' })).toEqual({
      greeting: 'Hello, Amina!',
    })
  })
})
`,
  'README.md': `# ${title}

Greets people by name.

## Environment

None.

## Tools

- \`${snake}_greet\` (read): makes a greeting for one person.

## Routes

- \`GET /${name}/greeting?name=\` (public): a greeting for one person.

## Limits

A name has at most 80 characters.
`,
}

await mkdir(folder, { recursive: true })
for (const [file, content] of Object.entries(files)) await writeFile(join(folder, file), content)
await addToBundle()
console.log(`
${folder} is there, and plugins/index.ts loads it. Next:

  npx vitest run ${folder}           its tests pass
  npm run check:plugin ${folder}     what is still missing for users
  npm start                          then GET /${name}/greeting?name=Amina
`)

/**
 * Adds the plugin to plugins/index.ts as `npm run format` leaves it: one name a line, sorted, so that branches that add plugins
 * rarely conflict.
 */
async function addToBundle() {
  const path = join('plugins', 'index.ts')
  const source = await readFile(path, 'utf8')
  const [list, entries] = /export const bundled = \[([^\]]*)\]/.exec(source) ?? []
  if (list === undefined || entries === undefined)
    return console.warn(`plugins/index.ts has no list called "bundled"; add ${camel} yourself.`)
  const names = [
    ...entries
      .split(',')
      .map((entry) => entry.trim())
      .filter(Boolean),
    camel,
  ].sort()
  const listed = source.replace(list, `export const bundled = [\n  ${names.join(',\n  ')},\n]`)
  const imports = [...listed.matchAll(/^import \w+ from '\.\/(.+)\/index\.ts'\n/gm)]
  // Behind the last that sorts before it; else where the imports of plugins begin.
  const before = imports.findLast(([, folder = '']) => folder < name)
  const at = before ? before.index + before[0].length : (imports[0]?.index ?? 0)
  const line = `import ${camel} from './${name}/index.ts'\n`
  await writeFile(path, listed.slice(0, at) + line + listed.slice(at))
}

function fail(sentence: string): never {
  console.error(sentence)
  process.exit(1)
}
