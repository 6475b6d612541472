import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'

const root = pathToFileURL(join(import.meta.dirname, '../..')).href
const inRoot = new RegExp(`^${root}/node_modules/(react|react-dom|scheduler)/`)

/** By name, because there are no types of what follows here, and none are needed. */
const load = (name: string): Promise<any> => import(name) // any: the published client as a page has it

/** A page with the published client in it, on one of the versions of React that it takes. */
export interface Page {
  readonly react: any // any: as above
  readonly client: any
  /** Renders into the page until the test ends. */
  mount(node: unknown): { readonly container: HTMLElementLike; unmount(): void }
}

/** As much of an element as these tests look at. */
export interface HTMLElementLike {
  readonly textContent: string
}

/** Opens the page of this process. There can be one only: modules are loaded once. */
export async function openPage(version: 18 | 19): Promise<Page> {
  if (version === 18)
    registerHooks({
      resolve(specifier, context, next) {
        const found = next(specifier, context)
        return {
          ...found,
          url: found.url.replace(inRoot, `${root}/test/older-peers/node_modules/$1/`),
        }
      },
    })
  const { JSDOM } = await load('jsdom')
  const { window } = new JSDOM('<!doctype html><body></body>', {
    url: 'http://localhost/',
    pretendToBeVisual: true,
  })
  const { document, localStorage, sessionStorage, requestAnimationFrame, cancelAnimationFrame } =
    window
  Object.assign(globalThis, { window, document, localStorage, sessionStorage })
  Object.assign(globalThis, { requestAnimationFrame, cancelAnimationFrame })
  const react = await load('react')
  if (!react.version.startsWith(`${version}.`)) throw new Error(`this is React ${react.version}`)
  const { createRoot } = await load('react-dom/client')
  const client = await load('@ixo/oracles-client-sdk')
  return {
    react,
    client,
    mount(node) {
      const container = document.createElement('div')
      document.body.append(container)
      const rendered = createRoot(container)
      rendered.render(node)
      let isOver = false
      const unmount = () => {
        if (!isOver) rendered.unmount()
        isOver = true
        container.remove()
      }
      onTestFinished(unmount)
      return { container, unmount }
    },
  }
}

/** Waits until something is true, and says what it was when it does not come true. */
export async function until<T>(check: () => T | false | undefined | null, ms = 8_000): Promise<T> {
  for (const end = Date.now() + ms; ;) {
    let value: unknown
    try {
      value = check()
      if (value) return value as T
    } catch (error) {
      value = error
    }
    if (Date.now() > end) throw value instanceof Error ? value : new Error(`not true: ${check}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
