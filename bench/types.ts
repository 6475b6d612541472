import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')

/** How many type instantiations the compiler may need for 40 plugins of 12 tools and 4 routes; the number grows linearly. */
// Every handler's context has sessions, rooms, jobs and peers that may be missing: that is what the last 40,000 pay for.
export const typeBudget = 1_500_000

/** The size of the made-up app whose types the bench compiles. */
export interface AppSize {
  readonly plugins: number
  readonly tools: number
  readonly routes: number
  readonly routeKey?: string
  readonly auth?: string
  /** The `input` of each tool, as source. */
  readonly input?: string
}

/** Compiles a made-up app of that size and counts type instantiations. */
export function measureTypes(size: AppSize): {
  instantiations: number
  checkSeconds: number
  errors: string
} {
  const folder = mkdtempSync(join(root, '.types-')) // inside the project, so that #core resolves
  try {
    for (let i = 0; i < size.plugins; i++)
      writeFileSync(join(folder, `plugin-${i}.ts`), source(i, size))
    const tsconfig = { extends: '../tsconfig.json', include: ['*.ts'] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig))
    const { stdout } = spawnSync(
      process.execPath,
      // With several checkers each one instantiates shared types again, so that the count would change by a tenth with every
      // file that is added anywhere.
      [
        join(root, 'node_modules/typescript/bin/tsc'),
        '-p',
        folder,
        '--extendedDiagnostics',
        '--singleThreaded',
      ],
      { encoding: 'utf8' },
    )
    const figure = (name: string) =>
      Number(new RegExp(`^${name}:\\s+([\\d.]+)`, 'm').exec(stdout)?.[1] ?? NaN)
    return {
      instantiations: figure('Instantiations'),
      checkSeconds: figure('Check time'),
      errors: stdout
        .split('\n')
        .filter((line) => /error TS|^\s{2,}/.test(line) && !/:\s+[\d.]+[sK]?$/.test(line))
        .join('\n'),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const usualInput =
  'input: z.object({ id: z.string(), count: z.number().optional(), tags: z.array(z.string()).default([]) }),'

function source(
  i: number,
  { tools, routes, routeKey, auth = 'public', input = usualInput }: AppSize,
): string {
  const tool = (t: number) => `
    tool_${i}_${t}: {
      description: 'Does thing ${t}.',
      ${input}
      output: z.object({ id: z.string(), total: z.number() }),
      run: ({ id, count = 0, tags }, { self, state, env }) => {
        state.last = id
        return { id: id + env.PREFIX, total: self.add(count, tags.length) }
      },
    },`
  const route = (r: number) => `
    '${routeKey ?? `GET /p${i}/r${r}/:id/:part`}': { auth: '${auth}', run: ({ id, part }, { self }) => ({ id, part, n: self.add(1, 2) }) },`
  return `import { z } from 'zod'
import { definePlugin } from '#core'
${i > 0 ? `import before from './plugin-${i - 1}.ts'` : ''}

export default definePlugin({
  name: 'plugin-${i}',
  summary: 'Plugin ${i}.',
  env: { PREFIX: z.string().default('p') },
  ${i > 0 ? 'requires: [before],' : ''}
  state: { last: z.string().optional() },
  setup: ({ env${i > 0 ? ', plugins' : ''} }) => ({
    add: (a: number, b: number) => a + b + env.PREFIX.length${i > 0 ? ` + plugins['plugin-${i - 1}'].add(0, 0)` : ''},
  }),
  tools: {${Array.from({ length: tools }, (_, t) => tool(t)).join('')}
  },
  routes: {${Array.from({ length: routes }, (_, r) => route(r)).join('')}
  },
})
`
}

if (import.meta.main) {
  const size = { plugins: 40, tools: 12, routes: 4 }
  const { instantiations, checkSeconds } = measureTypes(size)
  console.log(
    `types of ${size.plugins} plugins x ${size.tools} tools x ${size.routes} routes: ` +
      `${instantiations} instantiations (budget ${typeBudget}), checked in ${checkSeconds} s`,
  )
}
