import { JSDOM } from 'jsdom'
import { createElement, type ReactNode } from 'react'
import { flushSync } from 'react-dom'
import { createRoot } from 'react-dom/client'
import { afterEach } from 'vitest'

const dom = new JSDOM('<!doctype html><body></body>', {
  url: 'http://localhost/',
  pretendToBeVisual: true,
})
const { window } = dom
Object.assign(globalThis, {
  window,
  document: window.document,
  sessionStorage: window.sessionStorage,
})
// Node has a storage of its own, which only warns.
Object.defineProperty(globalThis, 'localStorage', {
  value: window.localStorage,
  configurable: true,
})
Object.defineProperty(globalThis, 'location', { value: window.location, configurable: true })

const open: (() => void)[] = []
afterEach(() => {
  for (const close of open.splice(0)) close()
  window.sessionStorage.clear()
  window.localStorage.clear()
  setVisibility('visible')
})

export interface Mounted {
  readonly container: HTMLElement
  render(node: ReactNode): void
  unmount(): void
}

/** Renders into the page until the test ends. */
export function mount(node: ReactNode): Mounted {
  const container = window.document.createElement('div')
  window.document.body.append(container)
  const root = createRoot(container)
  let isOver = false
  const unmount = () => {
    if (!isOver) root.unmount()
    isOver = true
    container.remove()
  }
  open.push(unmount)
  flushSync(() => root.render(node))
  return { container, render: (next) => root.render(next), unmount }
}

export interface Hooked<T> extends Mounted {
  /** What the hook returned last. */
  readonly now: T
  readonly renders: number
}

/** Runs a hook in a component of its own, inside what `wrap` puts around it. */
export function hook<T>(
  use: () => T,
  wrap: (child: ReactNode) => ReactNode = (child) => child,
): Hooked<T> {
  let now: T | undefined
  let renders = 0
  function Probe() {
    renders++
    now = use()
    return null
  }
  const mounted = mount(wrap(createElement(Probe)))
  return {
    ...mounted,
    get now() {
      return now as T
    },
    get renders() {
      return renders
    },
  }
}

/** Waits until something is true, and fails with the last error or value when it does not come true. */
export async function until<T>(check: () => T | false | undefined | null, ms = 10_000): Promise<T> {
  const end = Date.now() + ms
  for (;;) {
    let value: unknown
    try {
      value = check()
      if (value) return value as T
    } catch (error) {
      value = error
    }
    if (Date.now() > end)
      throw value instanceof Error ? value : new Error(`It did not come true: ${check}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** What the browser does when the user changes tabs. */
export function setVisibility(state: 'visible' | 'hidden'): void {
  Object.defineProperty(window.document, 'visibilityState', { value: state, configurable: true })
  window.document.dispatchEvent(new window.Event('visibilitychange'))
}

export function goOnline(): void {
  window.dispatchEvent(new window.Event('online'))
}
