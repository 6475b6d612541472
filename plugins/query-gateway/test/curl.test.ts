import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import gateway from '../index.ts'
import { descriptorFile, startLedger } from '../fixtures/ledger.ts'

const run = promisify(execFile)
const page = readFileSync(new URL('../../../docs/query-gateway.md', import.meta.url), 'utf8')
const lines = page.split('\n').filter((line) => line.startsWith('curl '))

it('answers every curl line of the page as it stands there', async () => {
  const ledger = await startLedger()
  await using app = await testApp({
    plugins: [gateway],
    env: {
      GATEWAY_UPSTREAM: ledger.address,
      GATEWAY_DESCRIPTORS: descriptorFile,
      GATEWAY_LEGACY_PREFIXES: 'old-ledger',
    },
  })
  await expect.poll(() => app.report.plugins[0]?.state).toBe('available')
  expect(lines.length).toBeGreaterThan(10)
  for (const line of lines) {
    const here = line.replace('http://127.0.0.1:3000', app.url).replace('curl -s', 'curl -s --fail')
    const { stdout } = await run('bash', ['-c', here])
    expect(stdout, line).toMatch(/^(\{|data: \{|<!doctype html>)/)
  }
  await ledger.close()
})

it('has every variable of the plugin in the table of its README, and no other', () => {
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  const variables = Object.keys(gateway.definition.env ?? {})
  expect(variables.length).toBeGreaterThan(10)
  for (const name of variables) expect(readme).toContain(`| \`${name}\``)
  const told = [...readme.matchAll(/^\| `(GATEWAY_\w+)`/gm)].map(([, name]) => name)
  expect(told.toSorted()).toEqual(variables.toSorted())
})
