import { type ReactNode, useEffect, useLayoutEffect, useRef } from 'react'
import { Boundary } from '../parts/boundary.tsx'

interface Props {
  readonly name: string
  readonly title: string
  /** The pane has a heading for those alone who hear it. */
  readonly isQuiet: boolean
  readonly isShown: boolean
  readonly children: ReactNode
}

/** The place of a view. A view that is left is hidden and goes on: what was typed, called, drawn and scrolled stays. */
export function Pane({ name, title, isQuiet, isShown, children }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const scrolled = useRef(0)
  useLayoutEffect(() => {
    if (isShown && box.current) box.current.scrollTop = scrolled.current
  }, [isShown])
  return (
    <div
      ref={box}
      className={`pane ${name}`}
      hidden={!isShown}
      onScroll={({ currentTarget, target }) => {
        if (isShown && target === currentTarget) scrolled.current = currentTarget.scrollTop
      }}
    >
      <Title text={title} isQuiet={isQuiet} isShown={isShown} />
      <Boundary>{children}</Boundary>
    </div>
  )
}

/** The view's heading. It takes the focus when the view changes, so that the keyboard and a screen reader start at the view. */
function Title(props: { text: string; isQuiet: boolean; isShown: boolean }) {
  const { text, isQuiet, isShown } = props
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    // A page that has just been opened leaves the focus at its beginning.
    if (isShown && hasChanged) heading.current?.focus({ preventScroll: true })
    if (isShown) hasChanged = true
  }, [isShown])
  return (
    <h1 ref={heading} tabIndex={-1} className={isQuiet ? 'hidden' : ''}>
      {text}
    </h1>
  )
}

/** Whether the page has shown another view before. */
let hasChanged = false
