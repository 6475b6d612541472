import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import registry from '../../plugins/registry/index.ts'
import { analyst } from './analyst.ts'
import { callTo, seed } from './seed.ts'

const run = promisify(execFile)
const page = readFileSync(new URL('../../docs/registry.md', import.meta.url), 'utf8')
const blocks = [...page.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block]) => block!)
/** The lines of the walk in docs/registry.md: comments on the expected answers, and commands. */
const lines = blocks
  .filter((block) => block.includes('curl '))
  .flatMap((block) => block.trim().split('\n'))
const mark = '--- '
const keys = /API_KEY=(\S+)/.exec(page)![1]!

it('goes as the page says, line by line in one shell', async () => {
  await using app = await testApp({ plugins: [registry], model: analyst, env: { API_KEY: keys } })
  await seed(callTo(app.url, 'key-of-amina'), callTo(app.url, 'key-of-ben'), () => {})
  const script = [
    'set -euo pipefail',
    blocks.find((block) => block.includes('AUTH='))!,
    ...lines.map((line) =>
      line.startsWith('#')
        ? `echo; echo "${mark}${line.slice(2)}"`
        : line.replaceAll('http://127.0.0.1:3000', app.url),
    ),
  ].join('\n')
  const { stdout } = await run('bash', ['-c', script])
  const steps = stdout.split(`\n${mark}`).slice(1)
  expect(steps.length).toBeGreaterThan(25)
  const told = steps.map((step) => {
    const [said = '', ...answer] = step.trim().split('\n')
    return { said, answer: answer.join('\n').trim() }
  })
  for (const { said, answer } of told) {
    if (/another day/.test(said)) continue // the walk keeps this answer in a variable, so the script prints none
    const status = /\b[45]\d\d\b/.exec(said)?.[0]
    if (status) expect(answer, said).toBe(status)
    else if (said.includes('303')) expect(answer).toBe('303 https://stoves.example/4/today')
    else if (said.includes('every change')) expect(answer).toContain('event: claim.approved')
    else if (said.includes('misspelt')) expect(answer).toMatch(/"statusCode":400.*did you mean/)
    else {
      for (const line of answer.split('\n')) expect(JSON.parse(line), said).toBeTypeOf('object')
      expect(answer, said).not.toContain('"statusCode"')
    }
  }
  const answerTo = (what: string) =>
    JSON.parse(told.find(({ said }) => said.includes(what))!.answer)
  const dids = (graph: { nodes: { did: string }[] }) => graph.nodes.map(({ did }) => did)
  expect(dids(answerTo('what the organisation reaches'))).toContain('did:ixo:cooking:stove-40')
  expect(dids(answerTo('only the stoves'))).toHaveLength(13)
  expect(dids(answerTo('who stands behind'))).toContain('did:ixo:cooking:organisation')
  expect(answerTo('the oracle approves').status).toBe('approved')
  expect(answerTo('takes it back').status).toBe('revoked')
})
