import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '../..')

/** Our packages are not on npm, and `oracle-client` there is a stranger's: an app installs ours from tarballs. */
const bareInstall =
  /\b(?:npm (?:i|install|add)|npx(?! --no))\b[^\n`]*[\s"']oracle-(?:runtime(?:-client)?|client)(?![-\w.])/

it('no document and no message installs a package of ours by its bare name', () => {
  const paths = globSync(
    ['*.md', '{cli,docs,client,core,deploy,plugins,scripts,examples}/**/*.{md,ts,tsx,json}'],
    { cwd: root, exclude: (path) => /node_modules|dist|built/.test(path) },
  )
  expect(paths.length).toBeGreaterThan(100)
  const found = paths.filter((path) => bareInstall.test(readFileSync(join(root, path), 'utf8')))
  expect(found).toEqual([])
})

it.each([
  'npm install oracle-runtime',
  'npm i -D zod oracle-runtime-client',
  'npm add oracle-client@1',
  'npx oracle-runtime init',
])('the rule finds "%s"', (line) => expect(line).toMatch(bareInstall))

it.each([
  'npm install ./oracle-runtime-client-0.1.0.tgz react',
  'npm pack -w client',
  'npx --no oracle-runtime',
])('the rule leaves "%s" alone', (line) => expect(line).not.toMatch(bareInstall))
