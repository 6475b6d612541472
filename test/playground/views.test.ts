import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type WebModule } from '#core'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import { buildView, entryOfView, modulesOfPage } from '../../cli/build-view.ts'
import { builtPage } from '../support/built-page.ts'
import playground from '../../plugins/playground/index.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { root } from '../support/process.ts'
import { describeWith } from '../support/services.ts'

/** Modules as plugins may serve them, good and bad. `fails` is answered once with a fault, and well after that. */
const modules: Record<string, string> = {
  good: `export default (element, host) => {
    const { keep, route, oracleDid, client, theme, locale, words } = host
    keep.set('shown', (keep.get('shown') ?? 0) + 1)
    element.textContent = 'Shown ' + keep.get('shown') + ' for ' + oracleDid + ' at ' + route.join('+')
    const button = document.createElement('button')
    button.textContent = 'Deeper'
    button.onclick = () => host.go('a', 'b')
    element.append(button)
    void host.ask('/health').then(({ status }) => element.append(' health ' + status))
    element.append(' ' + words.tryAgain)
    host.announce('It is there.')
    if (!client.wallet.did || !/light|dark/.test(theme) || !locale) throw new Error('incomplete')
    return () => void (globalThis.taken = true)
  }`,
  import: `throw new Error('It fails when it is imported.')`,
  mount: `export default () => { throw new Error('It fails when it is shown.') }`,
  later: `export default (element) => {
    const button = document.createElement('button')
    button.textContent = 'Break'
    button.onclick = () => { throw new Error('It fails when it is used.') }
    element.append(button)
    return () => { throw new Error('And when it is taken away.') }
  }`,
  promise: `export default (element) => {
    setTimeout(() => Promise.reject(new Error('Its promise fails.')), 50)
    return () => {}
  }`,
  nothing: `export const view = 1`,
  away: `export default (element) => ((element.textContent = 'It was away.'), () => {})`,
  beside: `export default (element) => ((element.textContent = 'Beside the field.'), () => {})`,
}

const files: WebModule = (ctx, next) => {
  const name = /^\/brought\/(\w+)\.js$/.exec(ctx.path)?.[1] ?? ''
  if (!Object.hasOwn(modules, name)) return next()
  ctx.type = 'text/javascript'
  ctx.body = modules[name]
}
const view = (name: string, order: number) => ({
  label: { en: `The ${name}` },
  module: `/brought/${name}.js` as const,
  order,
})
const brings = definePlugin({
  name: 'brings',
  summary: 'Brings views.',
  web: { '/brought': files },
  views: {
    ...Object.fromEntries(
      [...Object.keys(modules), 'missing'].map((name, i) => [`x-${name}`, view(name, 200 + i)]),
    ),
    'x-beside': { ...view('beside', 300), within: 'composer' },
    // The page has a view of this name, which stays the page's.
    wire: { ...view('good', 1), label: { en: 'Not the wire' } },
  },
})
/** A plugin whose view is for operators alone. */
const office = definePlugin({
  name: 'office',
  summary: 'Keeps the books.',
  web: {
    '/office': (ctx, next) => {
      if (ctx.path !== '/office/view.js') return next()
      ctx.type = 'text/javascript'
      ctx.body = `export default (element) => ((element.textContent = 'The books.'), () => {})`
    },
  },
  views: { office: { label: { en: 'Office' }, module: '/office/view.js', feature: 'operator' } },
})
const lacking = definePlugin({
  name: 'lacking',
  summary: 'Lacks something.',
  env: { LACKED: z.string() },
  web: { '/lacking': files },
  views: { lacking: { label: { en: 'Lacking' }, module: '/lacking/view.js' } },
})

const withViews = (await readdir(join(root, 'plugins'))).filter((name) =>
  entryOfView(join(root, 'plugins', name)),
)

it.each(withViews)(
  'the view of %s in the repository is what its source builds',
  async (name) => {
    const folder = await mkdtemp(join(tmpdir(), 'view-'))
    try {
      const own = join(root, `plugins/${name}/built`)
      for (const built of await buildView(join(root, `plugins/${name}`), folder)) {
        const fresh = await readFile(built, 'utf8')
        const kept = await readFile(join(own, basename(built)), 'utf8')
        expect(kept, `npm run build:view plugins/${name}`).toBe(fresh)
        // What stands within a chat is fetched with its first answer.
        const most = basename(built) === 'within.js' ? 2_000 : 15_000
        expect(brotliCompressSync(fresh).length).toBeLessThan(most)
      }
      expect((await readdir(own)).sort()).toEqual((await readdir(folder)).sort())
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
  60_000,
)

it('the page has what a view leaves out', async () => {
  const shared = await readFile(join(root, 'plugins/playground/page/shared.ts'), 'utf8')
  const had = [...shared.matchAll(/from '([^']+)'/g)].map(([, name]) => name)
  expect(had.sort()).toEqual([...modulesOfPage].sort())
})

it('a folder without a view is told so', async () => {
  await expect(buildView(join(root, 'docs'))).rejects.toThrow('has no view.tsx')
})

it('no plugin with a view is named by the page', async () => {
  const page = await readFile(join(root, 'plugins/playground/page/playground.tsx'), 'utf8')
  expect(page).not.toMatch(/payments|memory/i)
})

await describeWith('chromium', 'views that plugins bring', (program) => {
  let browser: Browser
  let app: TestApp
  beforeAll(async () => {
    await builtPage()
    browser = await launch(program)
    app = await testApp({
      plugins: [playground, brings, lacking, office],
      model: scriptedModel(['Still here.', 'Somebody is.']),
      env: { NODE_ENV: 'development' },
    })
  }, 90_000)
  afterAll(async () => {
    await app?.close()
    await browser?.close()
  })

  async function visit(at: string, locale = 'en-GB') {
    const context = await browser.newContext({ locale })
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${app.url}/playground/#/${at}`)
    return { page, complaints, nav: page.getByRole('navigation', { name: 'Views' }) }
  }

  it('stand in the page behind its own, keep what they are told to, and are taken away again', async () => {
    const { page, nav, complaints } = await visit('x-good')
    await page.getByText(`Shown 1 for ${app.oracleDid} at`).waitFor()
    await page.getByText('health ok').waitFor()
    await expect.poll(() => page.getByRole('status').allTextContents()).toContain('It is there.')
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('The good')
    await page.getByRole('button', { name: 'Deeper' }).click()
    await page.getByText('at a+b').waitFor()
    expect(new URL(page.url()).hash).toBe('#/x-good/a/b')
    const names = await nav.getByRole('link').allTextContents()
    expect(names.indexOf('API')).toBeLessThan(names.indexOf('The good'))
    expect(names).not.toContain('Not the wire')
    await nav.getByRole('link', { name: 'Capabilities' }).click()
    // A view that is left goes on out of sight, and comes back as it was.
    await page.getByText('at a+b').waitFor({ state: 'hidden' })
    await page.getByRole('heading', { level: 1, name: 'Capabilities' }).waitFor()
    await nav.getByRole('link', { name: 'The good' }).click()
    await page.getByText('Shown 2').waitFor()
    expect(new URL(page.url()).hash).toBe('#/x-good/a/b')
    // Another address behind its name shows it anew, and takes the one before away.
    expect(await page.evaluate('globalThis.taken')).toBe(true)
    expect(complaints).toEqual([])
    await page.context().close()
  }, 60_000)

  it.each([
    ['fr-CA', 'Réessayer'],
    ['sw-KE', 'Jaribu tena'],
    ['de-DE', 'Try again'],
  ])(
    'in %s the page and its views say the same words',
    async (locale, again) => {
      const { page, nav } = await visit('x-good', locale)
      await page.getByText(again, { exact: false }).waitFor()
      await nav.getByRole('link', { name: 'The mount' }).click()
      await page.getByRole('button', { name: again }).waitFor()
      await page.context().close()
    },
    60_000,
  )

  it('one that fails shows its fault and Try again, and the rest lives', async () => {
    const { page, nav } = await visit('x-import')
    const fault = page.getByRole('alert')
    for (const [name, sentence] of [
      ['import', 'It fails when it is imported.'],
      ['mount', 'It fails when it is shown.'],
      ['promise', 'Its promise fails.'],
      ['nothing', 'no function as its default export'],
      ['missing', 'Failed to fetch'],
    ] as const) {
      await nav.getByRole('link', { name: `The ${name}` }).click()
      await fault.getByText(sentence).waitFor()
    }
    await nav.getByRole('link', { name: 'The later' }).click()
    await page.getByRole('button', { name: 'Break' }).click()
    await fault.getByText('It fails when it is used.').waitFor()
    expect(await page.getByRole('button', { name: 'Break' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('button', { name: 'Break' }).waitFor()

    // A module that is mended meanwhile is fetched again.
    await nav.getByRole('link', { name: 'The import' }).click()
    await fault.getByText('It fails when it is imported.').waitFor()
    const broken = modules.import ?? ''
    modules.import = `export default (element) => { element.textContent = 'Mended.'; return () => {} }`
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Mended.').waitFor()
    modules.import = broken

    await nav.getByRole('link', { name: 'Chat' }).click()
    await page.getByLabel('Message', { exact: true }).fill('Are you there?')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('article', { name: 'Oracle' }).getByText('Still here.').waitFor()
    await page.context().close()
  }, 90_000)

  it('one whose server is not reached comes by itself once it is, and one within a chat says nothing until then', async () => {
    const { page, nav } = await visit('x-good')
    await page.getByText('Shown 1').waitFor()
    await page.context().setOffline(true)
    await nav.getByRole('link', { name: 'The away' }).click()
    await page.getByRole('alert').getByText('comes by itself').waitFor()
    await page.context().setOffline(false)
    await page.getByText('It was away.').waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)

    await page.route('**/brought/beside.js*', (route) => route.abort())
    const refused = page.waitForEvent('requestfailed', (request) => request.method() === 'HEAD')
    await nav.getByRole('link', { name: 'Chat' }).click()
    await page.getByLabel('Message', { exact: true }).fill('Is anybody beside you?')
    await page.getByRole('button', { name: 'Send' }).click()
    await refused
    expect(await page.getByRole('alert').count()).toBe(0)
    await page.unroute('**/brought/beside.js*')
    await page.getByText('Beside the field.').waitFor()
    await page.context().close()
  }, 90_000)

  it('one whose plugin is not there says why', async () => {
    const { page, nav } = await visit('lacking')
    await nav.getByRole('link', { name: 'Lacking' }).waitFor()
    const card = page.getByRole('region', { name: 'Not there' })
    await card.getByText('which is excluded').waitFor()
    await card.getByText('LACKED').waitFor()
    await page.context().close()
  }, 60_000)

  it('one for operators is shown to the page of this machine, and to no other user', async () => {
    const { page } = await visit('office')
    await page.getByText('The books.').waitFor()
    await page.context().close()

    // Elsewhere the server grants the page nothing.
    const context = await browser.newContext()
    const stranger = await context.newPage()
    await stranger.route('**/grants', (route) => route.fulfill({ status: 403, body: '{}' }))
    await stranger.goto(`${app.url}/playground/`)
    const views = stranger.getByRole('navigation', { name: 'Views' })
    await views.getByRole('link', { name: 'The good' }).waitFor()
    expect(await views.getByRole('link', { name: 'Office' }).count()).toBe(0)
    await context.close()
  }, 60_000)
})
