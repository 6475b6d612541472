import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { measureTypes, typeBudget } from '../bench/types.ts'

const root = resolve(import.meta.dirname, '..')
/** A compiler takes its time where others want the processor as well. */
const patientMs = 600_000

// test/types.test-d.ts holds a line for each inference that plugin authors are promised.
it.each([
  ['what runs on Node, with every promised inference,', 'tsconfig.json'],
  ['what runs in browsers', 'tsconfig.browser.json'],
])(
  '%s type-checks',
  (_, config) => {
    const { stdout, status } = spawnSync(
      process.execPath,
      ['node_modules/typescript/bin/tsc', '--noEmit', '-p', config],
      { cwd: root, encoding: 'utf8' },
    )
    expect(stdout).toBe('')
    expect(status).toBe(0)
  },
  patientMs,
)

it(
  'a large app stays within the budget of type instantiations',
  () => {
    const { instantiations, errors } = measureTypes({ plugins: 40, tools: 12, routes: 4 })
    expect(errors).toBe('')
    expect(instantiations).toBeGreaterThan(0)
    expect(instantiations).toBeLessThan(typeBudget)
  },
  patientMs,
)

it(
  'a malformed route key is a compile error that says how one reads',
  () => {
    const { errors } = measureTypes({ plugins: 1, tools: 1, routes: 1, routeKey: 'FETCH /x' })
    expect(errors).toContain(
      'A route key reads \\"METHOD /path\\" with GET, POST, PUT, PATCH or DELETE',
    )
  },
  patientMs,
)

it(
  'a tool without an input is a compile error that says what an input is',
  () => {
    const { errors } = measureTypes({ plugins: 1, tools: 1, routes: 0, input: '' })
    expect(errors).toContain('A tool has an \\"input\\", a schema of its arguments, for example')
  },
  patientMs,
)

it(
  'a wrong auth is a compile error that names the five',
  () => {
    const { errors } = measureTypes({ plugins: 1, tools: 0, routes: 1, auth: 'ucann' })
    expect(errors).toContain(
      'The auth of a route is \\"ucan\\", \\"public\\", \\"bearer\\", \\"operator\\" or \\"own\\"',
    )
  },
  patientMs,
)
