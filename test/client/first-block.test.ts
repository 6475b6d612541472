import { execFileSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, extname, join, resolve } from 'node:path'
import { build } from 'vite'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { complaintsOf, launch } from '../support/browser.ts'
import { describeWith } from '../support/services.ts'

const root = resolve(import.meta.dirname, '../..')
const types: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript' }

/** The code of the first block of a page of the documentation that is written in a language. */
function firstBlock(path: string, language: string): string {
  const [, code] =
    new RegExp(`\`\`\`${language}\n([^]*?)\n\`\`\``).exec(readFileSync(join(root, path), 'utf8')) ??
    []
  if (code === undefined) throw new Error(`${path} has no block of ${language}.`)
  return code
}

await describeWith(
  'chromium',
  'the first block of docs/react.md, on the packed package',
  (program) => {
    const folder = mkdtempSync(join(tmpdir(), 'first-block-'))
    let tarball = ''
    beforeAll(() => {
      const packing = ['pack', '--json', '--pack-destination', folder]
      const [packed] = JSON.parse(
        execFileSync('npm', packing, { cwd: join(root, 'client'), encoding: 'utf8' }),
      ) as { filename: string }[]
      tarball = join(folder, packed!.filename)
    }, 120_000)
    afterAll(() => rmSync(folder, { recursive: true, force: true }))

    it.each([
      ['19', 'node_modules'],
      ['18', 'test/older-peers/node_modules'],
    ])(
      'runs in a folder that has nothing else, with React %s',
      async (version, peers) => {
        const app = join(folder, `react-${version}`)
        const place = (name: string) => join(app, 'node_modules', name)
        mkdirSync(place('oracle-runtime-client'), { recursive: true })
        execFileSync('tar', [
          'xzf',
          tarball,
          '-C',
          place('oracle-runtime-client'),
          '--strip-components=1',
        ])
        // What `npm install` fetches beside the package is here already.
        const needed: Record<string, string> = { react: peers, 'react-dom': peers, zod: peers }
        for (const name of ['eventsource-parser', '@noble/curves', '@noble/hashes'])
          needed[name] = 'node_modules'
        for (const [name, at] of Object.entries(needed)) {
          mkdirSync(dirname(place(name)), { recursive: true })
          symlinkSync(join(root, at, name), place(name))
        }
        writeFileSync(join(app, 'package.json'), '{ "type": "module", "private": true }')
        writeFileSync(join(app, 'main.tsx'), firstBlock('docs/react.md', 'tsx'))
        for (const beside of ['index.html', 'style.css', 'call.tsx', 'oracle.ts', 'pay.tsx'])
          cpSync(join(root, 'examples/react-chat', beside), join(app, beside))
        await build({
          ...{ configFile: false, root: app, logLevel: 'silent' },
          build: { target: 'es2022' },
        })
        const server = createServer(({ url = '/' }, res) => {
          const { pathname } = new URL(url, 'http://localhost')
          const file = pathname === '/' ? '/index.html' : pathname
          res.setHeader('content-type', types[extname(file)] ?? 'text/plain')
          res.end(readFileSync(join(app, 'dist', file)))
        })
        await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
        const browser = await launch(program)
        try {
          await using oracle = await testApp({
            plugins: [],
            model: scriptedModel(['Good morning.']),
          })
          const page = await browser.newPage()
          page.setDefaultTimeout(40_000)
          const complaints = complaintsOf(page)
          const { port } = server.address() as AddressInfo
          await page.goto(`http://127.0.0.1:${port}/?oracle=${oracle.url}`)
          await page.getByLabel('Your message').fill('Hello')
          await page.getByRole('button', { name: 'Send' }).click()
          await page.getByText('Good morning.').waitFor()
          expect(await page.locator('form > p').allInnerTexts()).toEqual(['Hello', 'Good morning.'])
          expect(complaints).toEqual([])
        } finally {
          await browser.close()
          server.close()
        }
      },
      120_000,
    )
  },
)
