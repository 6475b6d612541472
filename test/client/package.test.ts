import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { build } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '../..')

const app = `import { OraclesProvider, useChat, type IMessage, type IChatOptions } from 'oracle-runtime-client'
import { useLiveAgent } from 'oracle-runtime-client/live-agent'
import { useNotices, type Notice } from 'oracle-runtime-client/notices'
import { openPasskeyWallet, type PasskeyWallet } from 'oracle-runtime-client/passkey'
import { OracleChat } from 'oracle-runtime-client/ui'
import { fr } from 'oracle-runtime-client/ui/languages/fr'
import { createDevelopmentWallet, type DevelopmentWallet } from 'oracle-runtime-client/wallet'

export function Page({ wallet, options }: { wallet: DevelopmentWallet; options: IChatOptions }) {
  return <OraclesProvider {...wallet}><Chat {...options} /><OracleChat oracleDid={options.oracleDid} language={fr} /></OraclesProvider>
}
function Chat(options: IChatOptions) {
  const { messages, status } = useChat(options)
  const last: IMessage | undefined = messages.at(-1)
  const { isReady } = useLiveAgent(options.oracleDid)
  return <p title={status}>{String(last?.content)}{String(isReady)}<Bell oracleDid={options.oracleDid} /></p>
}
function Bell({ oracleDid }: { oracleDid: string }) {
  const { notices, unread, markSeen } = useNotices(oracleDid)
  const newest: Notice | undefined = notices[0]
  return <button onClick={() => newest && void markSeen({ upTo: newest.id })}>{unread}</button>
}
export const wallet = createDevelopmentWallet()
const oracles = [{ did: 'did:web:a.example', baseUrl: 'https://a.example' }]
export const kept: Promise<PasskeyWallet | undefined> = openPasskeyWallet({ rpName: 'A', userName: 'B', oracles })
`

const fiveLines = `import { createRoot } from 'react-dom/client'
import { OraclesProvider } from 'oracle-runtime-client'
import { OracleChat } from 'oracle-runtime-client/ui'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'
import 'oracle-runtime-client/ui/style.css'
const wallet = await createDevelopmentWallet()
const chat = <OraclesProvider {...wallet}><OracleChat oracleDid="did:web:a.example" /></OraclesProvider>
createRoot(document.getElementById('root')!).render(chat)
`

describe('the package of the client', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-runtime-client-package-'))
  const installed = join(folder, 'node_modules/oracle-runtime-client')
  let files: string[] = []
  const run = (command: string, args: string[], cwd: string) =>
    execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

  beforeAll(() => {
    const [packed] = JSON.parse(
      run('npm', ['pack', '--json', '--pack-destination', folder], join(root, 'client')),
    ) as { filename: string; files: { path: string }[] }[]
    files = packed!.files.map(({ path }) => path)
    mkdirSync(installed, { recursive: true })
    run(
      'tar',
      ['xzf', join(folder, packed!.filename), '-C', installed, '--strip-components=1'],
      folder,
    )
    for (const name of [
      'react',
      'react-dom',
      'zod',
      'eventsource-parser',
      '@noble/curves',
      '@noble/hashes',
      '@types/react',
      'csstype',
    ]) {
      mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true })
      symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name))
    }
  }, 120_000)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('carries built files and nothing of the workshop', () => {
    expect(files).toEqual(
      expect.arrayContaining([
        'README.md',
        'dist/index.js',
        'dist/index.d.ts',
        'dist/live-agent.js',
        'dist/notices.js',
        'dist/passkey.js',
        'dist/ui.js',
        'dist/ui/style.css',
        'dist/ui/languages/fr.js',
        'dist/wallet.js',
      ]),
    )
    expect(
      files.filter(
        (path) =>
          !/^(dist\/([\w-]+\/)*[\w-]+\.(js|d\.ts)|dist\/ui\/style\.css|README\.md|package\.json)$/.test(
            path,
          ),
      ),
    ).toEqual([])
  })

  it('is as a package should be', async () => {
    const { messages, pkg } = await publint({ pkgDir: installed, strict: true })
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([])
    const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
    expect(manifest).toMatchObject({
      type: 'module',
      sideEffects: ['*.css'],
      dependencies: { 'eventsource-parser': expect.any(String) },
      peerDependencies: { react: '>=18', zod: '^3.25 || ^4' },
    })
    // Those of @noble sign where a browser does not compute for the page, and are fetched there alone.
    expect(Object.keys(manifest.dependencies)).toEqual([
      '@noble/curves',
      '@noble/hashes',
      'eventsource-parser',
    ])
    for (const entry of ['index', 'live-agent', 'notices', 'ui'])
      expect(readFileSync(join(installed, `dist/${entry}.js`), 'utf8')).toMatch(
        /^['"]use client['"]/,
      )
  })

  it('has types for an app, as bundlers and as Node resolve them', () => {
    writeFileSync(join(folder, 'app.tsx'), app)
    for (const [module, moduleResolution] of [
      ['esnext', 'bundler'],
      ['nodenext', 'nodenext'],
    ]) {
      const compilerOptions = {
        module,
        moduleResolution,
        target: 'es2022',
        lib: ['es2023', 'dom', 'dom.iterable'],
        jsx: 'react-jsx',
        strict: true,
        noEmit: true,
        types: [],
      }
      writeFileSync(
        join(folder, 'tsconfig.json'),
        JSON.stringify({ compilerOptions, include: ['app.tsx'] }),
      )
      writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', private: true }))
      expect(
        run(
          process.execPath,
          [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder],
          folder,
        ),
      ).toBe('')
    }
  }, 60_000)

  it('is a whole chat in five lines of an app that Vite builds', async () => {
    writeFileSync(
      join(folder, 'index.html'),
      '<main id="root"></main><script type="module" src="./main.tsx"></script>',
    )
    writeFileSync(join(folder, 'main.tsx'), fiveLines)
    const built = await build({
      ...{ configFile: false, root: folder, logLevel: 'silent' },
      build: { write: false, minify: false },
    })
    const files = [built].flat().flatMap((one) => ('output' in one ? one.output : []))
    const text = (of: RegExp) =>
      files
        .filter(({ fileName }) => of.test(fileName))
        .map((one) => ('code' in one ? one.code : String(one.source)))
        .join('\n')
    expect(text(/css$/)).toContain('.oc-root')
    for (const part of ['oc-threads', 'oc-composer', 'oc-approval', 'oc-tool'])
      expect(text(/js$/)).toContain(part)
    // What pays, and what signs without the browser's help, is fetched by who needs it.
    const first = files.find((one) => 'isEntry' in one && one.isEntry)
    expect(first && 'code' in first && first.code).not.toMatch(/sha512|RipemdHash|oc-payment/i)
  }, 60_000)

  it('can be imported on a server', () => {
    const script = `import('oracle-runtime-client').then((m) => console.log(typeof m.useChat, typeof m.createOracleClient))`
    expect(run(process.execPath, ['-e', script], folder)).toBe('function function\n')
  })
})
