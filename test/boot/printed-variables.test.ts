import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { bundledPlugins } from '../../plugins/index.ts'
import { allVariables } from '../../scripts/variables.ts'

it('npm run env fits 100 columns, and tells of every variable what it does', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--conditions=oracle-runtime-source',
    'cli/main.ts',
    'env',
  ])
  const tooWide = stdout.split('\n').filter((line) => line.length > 100)
  expect(tooWide).toEqual([])
  const told = stdout.replace(/\s+/g, ' ')
  for (const { name, description } of allVariables()) {
    expect(stdout).toMatch(new RegExp(`^${name} `, 'm'))
    expect(told).toContain(description.replace(/\s+/g, ' '))
  }
})

it('what it prints as the default of a variable is what the variable takes', () => {
  const defaults = new Map(allVariables().map((one) => [`${one.owner} ${one.name}`, one.default]))
  const shown = bundledPlugins.flatMap(({ name: owner, definition }) =>
    Object.entries(definition.env ?? {}).flatMap(([name, schema]) => {
      const text = defaults.get(`${owner} ${name}`)
      return text ? [{ name, text, isTaken: z.core.safeParse(schema, text).success }] : []
    }),
  )
  expect(shown.length).toBeGreaterThan(20)
  expect(shown.filter(({ isTaken }) => !isTaken)).toEqual([])
})
