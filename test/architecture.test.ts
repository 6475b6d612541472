import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { staleWords, violations } from './support/architecture.ts'
import { insideFaults, insideTests } from './support/inside-tests.ts'
import { kernelWords } from './support/kernel-words.ts'

const paths = globSync([
  '{core,plugins,client,examples,prebuilt,scripts,testing}/**/*.{ts,tsx}',
  'server.ts',
  'start.js',
])
const house = new Map(paths.map((path) => [path, readFileSync(path, 'utf8')]))
const standing = violations(house)
const planted = (path: string, source: string) =>
  violations(new Map([...house, [path, source]])).filter((found) => !standing.includes(found))

describe('the walls of the house', () => {
  it('stand: the code as it is breaks none', () => {
    expect(house.size).toBeGreaterThan(30)
    expect(standing).toEqual([])
  })

  it('a kernel file that imports a plugin is found', () => {
    expect(
      planted('core/runtime/x.ts', `import w from '../../plugins/weather/index.ts'`),
    ).toContainEqual(expect.stringContaining('the kernel never knows'))
    expect(
      planted('core/runtime/x.ts', `const w = await import('../../plugins/weather/index.ts')`),
    ).toContainEqual(expect.stringContaining('the kernel never knows'))
  })

  it('a kernel file that names a plugin is found, in code and in prose', () => {
    for (const source of [`if (name === 'weather') load()`, `// the Weather plugin needs this`])
      expect(planted('core/runtime/x.ts', source)).toEqual([
        'core/runtime/x.ts names the plugin weather: the kernel knows kinds, never names',
      ])
  })

  it('a file of the playground that names a plugin is found, in a string, an address or a name of the code', () => {
    for (const source of [
      `if (plugin === 'weather') show()`,
      'await ask(`/weather/now`)',
      `export function WeatherCard() {}`,
      `const hasWeather = true`,
    ])
      expect(planted('plugins/playground/page/x.tsx', source)).toEqual([
        'plugins/playground/page/x.tsx names the plugin weather: the playground shows what plugins bring',
      ])
  })

  it('a kernel file that names a provider of models is found, by its path too', () => {
    for (const source of [
      `if (id.startsWith('openai/')) load()`,
      `const at = 'Anthropic'`,
      `env.OLLAMA_HOST`,
    ])
      expect(planted('core/runtime/x.ts', source)).toEqual([
        expect.stringMatching(
          /^core\/runtime\/x\.ts names the provider .+: the kernel knows none$/,
        ),
      ])
    expect(planted('core/runtime/model/google.ts', '')).toEqual([
      'core/runtime/model/google.ts names the provider google: the kernel knows none',
    ])
  })

  it('syntax that the oldest Node cannot read is found in what is shipped', () => {
    const source = `await using file = await open('x')`
    expect(planted('cli/x.ts', source)).toContainEqual(
      expect.stringContaining('cli/x.ts has a `using` declaration'),
    )
    expect(planted('core/runtime/base/x.test.ts', source)).toEqual([])
  })

  it('a plugin may be called by a word that the kernel quotes for reasons of its own', () => {
    // Nothing else is asked of the rest of the house here, and each word asks five times.
    const kernel = [...house].filter(([path]) => /^core\/|^plugins\/[^/]+\/index\.ts$/.test(path))
    // The documentation has everybody make the first one.
    expect(violations(new Map([...kernel, ['plugins/field-notes/index.ts', '']]))).toEqual([])
    for (const word of Object.keys(kernelWords)) {
      const called = new Map([...kernel, [`plugins/${word}/index.ts`, '']])
      expect(violations(called)).toEqual([])
      for (const source of [`if (name === '${word}') load()`, `// see plugins/${word}`])
        expect(violations(new Map([...called, ['core/runtime/x.ts', source]]))).toEqual([
          `core/runtime/x.ts names the plugin ${word}: the kernel knows kinds, never names`,
        ])
      // A place of the table may quote the word; it may not mean the plugin.
      const [place = ''] = Object.keys(kernelWords[word] ?? {})
      const meant = `${house.get(place)}\n// for the ${word} plugin`
      expect(violations(new Map([...called, [place, meant]]))).toEqual([
        `${place} names the plugin ${word}: the kernel knows kinds, never names`,
      ])
    }
  })

  it('every place of the table of the kernel’s own words still quotes its word', () => {
    expect(staleWords(house)).toEqual([])
  })

  it('a plugin that imports a sibling must require it', () => {
    const index = (requires: string) =>
      `import weather from '../weather/index.ts'\nexport default definePlugin({ ${requires} })`
    expect(planted('plugins/travel/index.ts', index(''))).toEqual([
      'plugins/travel/index.ts imports ../weather/index.ts: travel does not require weather',
    ])
    expect(planted('plugins/travel/index.ts', index('requires: [weather],'))).toEqual([])
    expect(planted('plugins/travel/index.ts', index('uses: [weather],'))).toEqual([])
    expect(
      planted('plugins/travel/index.ts', `import { x } from '../weather/open-meteo.ts'`),
    ).toHaveLength(1)
  })

  it('a plugin that reaches past the front door is found', () => {
    expect(
      planted(
        'plugins/travel/a.ts',
        `import { Tools } from '../../core/runtime/agent/tools/tools.ts'`,
      ),
    ).toHaveLength(1)
    expect(planted('plugins/travel/a.ts', `import { testApp } from '#core/testing'`)).toHaveLength(
      1,
    )
    expect(planted('plugins/travel/a.test.ts', `import { testApp } from '#core/testing'`)).toEqual(
      [],
    )
    expect(planted('plugins/travel/a.ts', `import { deliver } from '#core/webhooks'`)).toEqual([])
    expect(
      planted(
        'plugins/travel/a.ts',
        `import { checkUrl } from '../../core/runtime/outbound/guard.ts'`,
      ),
    ).toHaveLength(1)
  })

  it('what stands in for providers knows their names, so the kernel does not know it', () => {
    const names = `import { fakeProvider } from '../../testing/index.ts'`
    expect(planted('core/testing/x.ts', names)).toHaveLength(1)
    expect(planted('plugins/travel/a.ts', names)).toHaveLength(1)
    expect(planted('testing/x.ts', `import w from '../plugins/weather/index.ts'`)).toHaveLength(1)
    expect(planted('testing/x.ts', `import { it } from '../core/testing/index.ts'`)).toEqual([])
  })

  it('the command line knows the app of its folder, and no plugin; nothing but the front door knows it', () => {
    const up = `import { runCommand } from '../../cli/run-command.ts'`
    expect(planted('core/runtime/x.ts', up)).toHaveLength(1)
    expect(planted('plugins/travel/a.ts', up)).toHaveLength(1)
    expect(planted('cli/x.ts', `import w from '../plugins/weather/index.ts'`)).toHaveLength(1)
    expect(planted('cli/x.ts', `import { models } from '../plugins/models.ts'`)).toEqual([])
    expect(planted('cli/x.ts', `import { table } from '../scripts/docs.ts'`)).toHaveLength(1)
  })

  it('inside the kernel, dependencies point one way', () => {
    expect(
      planted('core/manifest/x.ts', `import { onion } from '../runtime/agent/onion.ts'`),
    ).toHaveLength(1)
    expect(planted('core/plugin.ts', `import { RuntimeError } from './errors.ts'`)).toHaveLength(1)
    expect(planted('core/errors.ts', `import { log } from './runtime/base/log.ts'`)).toHaveLength(1)
    expect(planted('core/error-codes.ts', `import { x } from './plugin.ts'`)).toHaveLength(1)
    expect(
      planted('core/runtime/x.ts', `import { testApp } from '../testing/index.ts'`),
    ).toHaveLength(1)
    expect(planted('core/runtime/x.ts', `import type { Fault } from '../errors.ts'`)).toEqual([])
  })

  it('a room of the runtime imports only from floors below it, by values and by types', () => {
    expect(
      planted('core/runtime/store/x.ts', `import type { Runs } from '../turns/carry/runs.ts'`),
    ).toEqual([
      'core/runtime/store/x.ts imports ../turns/carry/runs.ts: store stands below turns/carry, ' +
        'and a room imports only from floors below it',
    ])
    expect(
      planted('core/runtime/agent/ask/x.ts', `import { TurnState } from '../state/state.ts'`),
    ).toEqual([
      'core/runtime/agent/ask/x.ts imports ../state/state.ts: agent/ask stands on the same floor ' +
        'as agent/state, and a room imports only from floors below it',
    ])
    expect(
      planted('core/runtime/turns/wire/x.ts', `import { Runs } from '../carry/runs.ts'`),
    ).toEqual([])
  })

  it('two rooms that import each other are a circle, and one of them is wrong', () => {
    const both = new Map([
      ...house,
      ['core/runtime/http/read/x.ts', `import { y } from '../answer/y.ts'`],
      ['core/runtime/http/answer/y.ts', `import { x } from '../read/x.ts'`],
    ])
    expect(violations(both).filter((found) => found.includes('stands below'))).toEqual([
      expect.stringContaining('http/read stands below http/answer'),
    ])
  })

  it('a new room must be given a floor', () => {
    expect(planted('core/runtime/attic/x.ts', `import { z } from '../base/log.ts'`)).toEqual([
      expect.stringContaining('the room attic stands on no floor'),
    ])
  })

  it('files do not import each other’s values in a circle', () => {
    const round = (kind: string) =>
      violations(
        new Map([
          ...house,
          ['core/runtime/base/x.ts', `import { y } from './y.ts'`],
          ['core/runtime/base/y.ts', `import ${kind}{ x } from './x.ts'`],
        ]),
      )
    expect(round('')).toEqual([
      "core/runtime/base/x.ts -> core/runtime/base/y.ts -> core/runtime/base/x.ts: files import each other's values in a circle",
    ])
    expect(round('type ')).toEqual([])
  })

  it('a package that shapes its surroundings stays in its room', () => {
    expect(planted('core/runtime/x.ts', `import Koa from 'koa'`)).toHaveLength(1)
    expect(planted('core/runtime/x.ts', `import type Koa from 'koa'`)).toEqual([])
    const picked = `export interface X extends Pick<Y, 'koa'> {}`
    expect(planted('core/runtime/x.ts', picked)).toEqual([])
    expect(planted('core/runtime/x.ts', `import 'koa'`)).toHaveLength(1)
    expect(
      planted('plugins/travel/a.ts', `import { StateGraph } from '@langchain/langgraph'`),
    ).toHaveLength(1)
  })

  it('the client takes types from the kernel and nothing else', () => {
    expect(planted('client/x.ts', `import { RuntimeError } from '../core/errors.ts'`)).toHaveLength(
      1,
    )
    expect(planted('client/x.ts', `import type { TurnEvent } from '../core/plugin.ts'`)).toEqual([])
  })
})

describe('the test files', () => {
  const tests = new Map(
    globSync('test/**/*.{ts,tsx}', {
      exclude: (path) => /(^|\/)node_modules$/.test(path) || path === 'test/support',
    }).map((path) => [path, readFileSync(path, 'utf8')]),
  )

  it('import no inside of the core, but for those that say why', () => {
    expect(tests.size).toBeGreaterThan(100)
    expect(insideFaults(tests)).toEqual([])
    for (const [path, reason] of Object.entries(insideTests))
      expect(reason, path).toMatch(/^[A-Z].{30,}\.$/)
  })

  const core = '../../core'
  it.each([
    `import { Runs } from '${core}/runtime/turns/carry/runs.ts'`,
    `import type { Engine } from '${core}/runtime/turns/run.ts'`,
    `import {\n  kernelEnv,\n} from '${core}/manifest/kernel-env.ts'`,
    `export { quote } from '${core}/runtime/base/quote.ts'`,
    `const made = await import('${core}/runtime/app.ts')`,
    `let store: import('${core}/runtime/store/store.ts').Store`,
  ])('that import one without a line in the table are found: %s', (source) => {
    const planted = new Map([...tests, ['test/http/planted.test.ts', source]])
    expect(insideFaults(planted)).toEqual([
      expect.stringMatching(/^test\/http\/planted\.test\.ts imports core\/(runtime|manifest)\//),
    ])
    const table = { ...insideTests, 'test/http/planted.test.ts': 'It is planted.' }
    expect(insideFaults(planted, table)).toEqual([])
  })

  it('that import none any more, or are gone, leave a line in the table, which is found', () => {
    const [path = ''] = Object.keys(insideTests)
    const told = [`test/support/inside-tests.ts: ${path} imports no inside of the core any more`]
    const converted = `import { createApp } from '#core'\nimport type { Log } from '../../core/plugin.ts'`
    expect(insideFaults(new Map([...tests, [path, converted]]))).toEqual(told)
    expect(insideFaults(new Map([...tests].filter(([found]) => found !== path)))).toEqual(told)
  })
})
