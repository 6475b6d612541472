import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../test/support/process.ts'
import { buildPageApart } from './build-apart.ts'

/** A page of one line, where it finds the packages that the builder takes. */
async function pageOf(script: string) {
  const cache = join(root, 'node_modules/.cache')
  await mkdir(cache, { recursive: true })
  const folder = await mkdtemp(join(cache, 'page-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const sources = join(folder, 'page')
  await mkdir(sources)
  await writeFile(
    join(sources, 'index.html'),
    '<!doctype html><title>A page</title><script type="module" src="./main.ts"></script>',
  )
  await writeFile(join(sources, 'main.ts'), script)
  return { folder, sources, directory: join(folder, 'built') }
}

test('another process builds the page, so the server keeps nothing of the builder', async () => {
  const page = await pageOf('document.title = `built ${1 + 1}`')
  await buildPageApart(page)
  expect(await readdir(page.directory)).toContain('index.html')
  expect(await readdir(page.folder)).toEqual(['built', 'page'])
})

test('what is wrong in a source is said without colours, and what was served stays', async () => {
  const page = await pageOf('document.title = "one"')
  await buildPageApart(page)
  const before = await readdir(page.directory, { recursive: true })
  await writeFile(join(page.sources, 'main.ts'), 'import "./missing.ts"')
  const fault = await buildPageApart(page).then(
    () => undefined,
    (error: Error) => error.message,
  )
  expect(fault).toMatch(/missing\.ts/)
  expect(fault).not.toContain('\x1b')
  expect(await readdir(page.directory, { recursive: true })).toEqual(before)
})
