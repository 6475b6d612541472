import { execFileSync, spawnSync } from 'node:child_process'
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
import { type Browser, type BrowserContextOptions } from 'playwright-core'
import { build } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import { fr } from '../../client/ui/languages/fr.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { png } from '../support/sample-files.ts'
import { describeWith } from '../support/services.ts'

const root = resolve(import.meta.dirname, '../..')
const types: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
}

/** The code of the first block of a page of the documentation that is written in a language. */
function firstBlock(path: string, language: string): string {
  const [, code] =
    new RegExp(`\`\`\`${language}\n([^]*?)\n\`\`\``).exec(readFileSync(join(root, path), 'utf8')) ??
    []
  if (code === undefined) throw new Error(`${path} has no block of ${language}.`)
  return code
}

/** A page for the block of docs/kit.md, whose elements a server has made already. */
const hydrated = `import { StrictMode } from 'react'
import { hydrateRoot } from 'react-dom/client'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'
import { App } from './app.tsx'

const wallet = await createDevelopmentWallet()
const did = new URLSearchParams(location.search).get('did')
hydrateRoot(document.getElementById('root'), <StrictMode><App wallet={wallet} did={did} /></StrictMode>)
`

/** What a server makes of the same elements, in a process that has no window. */
const rendered = `import { createElement as h } from 'react'
import { renderToString } from 'react-dom/server'
import { OraclesProvider } from 'oracle-runtime-client'
import { OracleChat } from 'oracle-runtime-client/ui'

const matrix = { accessToken: '', homeServer: '' }
const initialWallet = { address: '', did: 'did:key:z1', matrix }
const wallet = { initialWallet, transactSignX: async () => {}, createDelegation: async () => {} }
const [, oracleDid] = process.argv
const made = (more) => renderToString(h(OraclesProvider, wallet, h(OracleChat, { oracleDid, ...more })))
made({ sessionId: 'one' })
process.stdout.write(made())
`

const invites = definePlugin({
  name: 'invites',
  summary: 'Invites people.',
  visibility: 'always',
  tools: {
    invite: {
      description: 'Invites somebody.',
      approve: true,
      input: z.object({ to: z.string() }),
      run: ({ to }) => `invited ${to}`,
    },
  },
})

await describeWith(
  'chromium',
  'the first blocks of the pages, on the packed package',
  (program) => {
    const folder = mkdtempSync(join(tmpdir(), 'first-block-'))
    let tarball = ''
    let browser: Browser
    beforeAll(async () => {
      const packing = ['pack', '--json', '--pack-destination', folder]
      const [packed] = JSON.parse(
        execFileSync('npm', packing, { cwd: join(root, 'client'), encoding: 'utf8' }),
      ) as { filename: string }[]
      tarball = join(folder, packed!.filename)
      browser = await launch(program)
    }, 120_000)
    afterAll(async () => {
      await browser?.close()
      rmSync(folder, { recursive: true, force: true })
    })

    describe.each([
      ['19', 'node_modules'],
      ['18', 'test/older-peers/node_modules'],
    ])('in a folder that has nothing else, with React %s', (version, peers) => {
      const app = join(folder, `react-${version}`)
      /** Where the oracle is; the site tells it to who asks by DID alone. */
      let oracleUrl = ''
      let html = ''
      const server = createServer(async ({ url = '/' }, res) => {
        const { pathname } = new URL(url, 'http://localhost')
        const file = pathname === '/' ? '/index.html' : pathname
        res.setHeader('content-type', types[extname(file)] ?? 'text/plain')
        if (file === '/.well-known/oracle.json')
          return res.end(await (await fetch(oracleUrl + file)).text())
        const body = readFileSync(join(app, 'dist', file), 'utf8')
        res.end(body.replace('<main id="root"></main>', `<main id="root">${html}</main>`))
      })

      beforeAll(async () => {
        const place = (name: string) => join(app, 'node_modules', name)
        const own = place('oracle-runtime-client')
        mkdirSync(own, { recursive: true })
        execFileSync('tar', ['xzf', tarball, '-C', own, '--strip-components=1'])
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
        writeFileSync(join(app, 'app.tsx'), firstBlock('docs/kit.md', 'tsx'))
        writeFileSync(join(app, 'hydrated.tsx'), hydrated)
        const example = join(root, 'examples/react-chat')
        for (const beside of ['index.html', 'oracle.ts'])
          cpSync(join(example, beside), join(app, beside))
        const page = readFileSync(join(app, 'index.html'), 'utf8')
        writeFileSync(join(app, 'hydrated.html'), page.replace('main.tsx', 'hydrated.tsx'))
        await build({
          ...{ configFile: false, root: app, logLevel: 'silent' },
          build: { target: 'es2022', rolldownOptions: { input: ['index.html', 'hydrated.html'] } },
        })
        await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
      }, 120_000)
      afterAll(() => void server.close())

      async function open(path: string, options: BrowserContextOptions = {}) {
        const page = await (await browser.newContext(options)).newPage()
        page.setDefaultTimeout(40_000)
        const complaints = complaintsOf(page)
        const { port } = server.address() as AddressInfo
        await page.goto(`http://127.0.0.1:${port}${path}`)
        return { page, complaints }
      }

      it('the one of React answers', async () => {
        await using oracle = await testApp({ plugins: [], model: scriptedModel(['Good morning.']) })
        const { page, complaints } = await open(`/?oracle=${oracle.url}`)
        await page.getByLabel('Message', { exact: true }).fill('Hello')
        await page.keyboard.press('Enter')
        await page.locator('.oc-ai').getByText('Good morning.').waitFor()
        expect(await page.locator('.oc-said').allInnerTexts()).toEqual(['Hello'])
        expect(complaints).toEqual([])
      }, 60_000)

      it('the five lines of the kit are a chat with threads, tools, approval and attachments, over elements of a server', async () => {
        const model = scriptedModel([call('invite', { to: 'Ada' }), 'She is invited.'], {
          reads: { image: ['image/*'] },
        })
        await using oracle = await testApp({ plugins: [invites], model })
        oracleUrl = oracle.url
        const server = spawnSync(
          process.execPath,
          ['--input-type=module', '-e', rendered, oracle.oracleDid],
          { cwd: app, encoding: 'utf8' },
        )
        expect(server.stderr).toBe('')
        html = server.stdout
        expect(html).toContain('class="oc-composer"')

        // The server has spoken English, and the reader reads French: the words change after the elements have been taken over.
        const { page, complaints } = await open(`/hydrated.html?did=${oracle.oracleDid}`, {
          locale: 'fr-CA',
        })
        const field = page.getByLabel(fr.message, { exact: true })
        await field.waitFor()
        expect(complaints).toEqual([])
        await page.locator('.oc-composer input[type=file]').setInputFiles({
          ...{ name: 'face.png', mimeType: 'image/png', buffer: Buffer.from(png(30)) },
        })
        await page.locator('.oc-attachments').getByText('face.png').waitFor()
        await field.fill('Invite her.')
        await page.getByRole('button', { name: fr.send }).click()
        await page.getByRole('button', { name: fr.approve }).click()
        await page.locator('.oc-ai').getByText('She is invited.').waitFor()
        await page.locator('.oc-tool[data-tool=invite][data-state=done]').waitFor()
        await page.locator('.oc-human img[alt="face.png"]').waitFor()
        await expect
          .poll(() => page.locator('.oc-thread-name').allInnerTexts())
          .toEqual(['Invite her.'])
        expect(complaints).toEqual([])
      }, 60_000)
    })
  },
)
