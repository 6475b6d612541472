import { useEffect, useRef, useState } from 'react'
import { Fault, type ShowView, type ViewHost } from 'oracle-runtime-client/view'
import { hearFaults, type Brought } from '../brought.ts'
import { type Around, hostOf } from '../host.ts'
import type { Oracle } from '../oracle.ts'
import { words } from '../words.ts'
import '../shared.ts'
import './views.css'
import './operations.css'

interface Props extends Around {
  readonly view: Brought
  readonly oracle: Oracle
}

/** The states of a plugin in which its view cannot be read. */
const away = ['excluded', 'failed', 'disabled']

/** A view that a plugin brings, or why it is not there. What goes wrong in it stays in it. */
export function BroughtView(props: Props) {
  const { view } = props
  if (!away.includes(view.state)) return <Shown {...props} />
  return (
    <section className="card" aria-label={words.notThere}>
      <p>
        This view is a part of the plugin <b>{view.plugin}</b>, which is {view.state}.
      </p>
      {view.reason && <p>{view.reason}</p>}
    </section>
  )
}

/** How soon a view is fetched again whose server was not reached: later each time, and at once when there is a network again. */
const fetchAgain = { firstMs: 2_000, mostMs: 30_000 }

/** The server that has the code of a view was not reached. */
class Unreached extends Error {
  constructor() {
    super('The server cannot be reached. This view comes by itself once it can.')
  }
}

function Shown(props: Props) {
  const { view, oracle } = props
  const box = useRef<HTMLDivElement>(null)
  const [fault, setFault] = useState<{ readonly error: unknown }>()
  const [tries, setTries] = useState(0)
  const isUnreached = fault?.error instanceof Unreached
  const again = () => {
    setFault(undefined)
    setTries((count) => count + 1)
  }
  useEffect(() => {
    if (!isUnreached) return
    const wait = Math.min(fetchAgain.mostMs, fetchAgain.firstMs * 2 ** tries)
    const timer = setTimeout(again, wait)
    addEventListener('online', again)
    return () => {
      clearTimeout(timer)
      removeEventListener('online', again)
    }
  }, [isUnreached])
  const latest = useRef<Around>({ ...props, within: view.within })
  latest.current = { ...props, within: view.within }
  useEffect(() => {
    if (!box.current) return
    const element = document.createElement('div')
    box.current.append(element)
    return present(view, tries, element, hostOf(view.name, oracle, latest), (error) =>
      setFault({ error }),
    )
    // The address is a part of what a view shows, so another address shows the view anew.
  }, [view.module, tries, props.route.join('/')])
  return (
    <>
      <div ref={box} className="brought" />
      {/* The chat says itself that the connection is lost; each part within it need not say so, too. */}
      {fault && !(isUnreached && view.within) && (
        <>
          <Fault error={fault.error ?? new Error('The view failed.')} />
          <button type="button" onClick={again}>
            {words.tryAgain}
          </button>
        </>
      )}
    </>
  )
}

/** Shows a view in an element; returns what takes it away. `tell` hears whatever the view throws, now or later. */
function present(
  { module }: Brought,
  tries: number,
  element: HTMLElement,
  host: ViewHost,
  tell: (error: unknown) => void,
): () => void {
  let isOver = false
  let remove: (() => void) | undefined
  const end = () => {
    if (isOver) return
    isOver = true
    stop()
    try {
      remove?.()
    } catch (error) {
      console.error(error)
    }
    element.remove()
  }
  const fail = (error: unknown) => {
    if (isOver) return
    end()
    tell(error)
  }
  const stop = hearFaults(module, fail)
  const show = async () => {
    // A browser keeps the outcome of an import, so another try needs another address.
    const address = tries > 0 ? `${module}?try=${tries}` : module
    const { default: view } = (await import(/* @vite-ignore */ address).catch((error) =>
      whyNot(module, error),
    )) as { default?: ShowView }
    if (typeof view !== 'function')
      throw new Error(`${module} has no function as its default export.`)
    if (!isOver) remove = view(element, host)
  }
  show().catch(fail)
  return end
}

/** What an import says does not tell a module that is not there from a server that is not. */
async function whyNot(module: string, error: unknown): Promise<never> {
  const isThere = await fetch(module, { method: 'HEAD' }).then(
    () => true,
    () => false,
  )
  throw isThere ? error : new Unreached()
}
