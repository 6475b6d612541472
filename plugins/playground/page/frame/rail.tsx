import { useEffect, useState } from 'react'
import { Icon } from './icon.tsx'

/** A way to a view: its name in the address, what it is called, where its link leads. */
export interface Tab {
  readonly name: string
  readonly label: string
  readonly href: string
}

/** How many views a narrow page shows at once; the others stand behind More. */
const mostInBar = 4

/** The ways to all views, as one narrow column of icons with names; on a narrow page a bar with four of them, and More. */
export function Rail({ tabs, shown }: { readonly tabs: readonly Tab[]; readonly shown: string }) {
  const [isOpen, setOpen] = useState(false)
  useEffect(() => setOpen(false), [shown])
  const isBehind = tabs.findIndex(({ name }) => name === shown) >= mostInBar
  return (
    <nav
      aria-label="Views"
      className={isOpen ? 'open' : ''}
      onKeyDown={({ key }) => key === 'Escape' && setOpen(false)}
    >
      <ul>
        {tabs.map(({ name, label, href }, nth) => (
          <li key={name} className={nth < mostInBar ? '' : 'behind'}>
            <a href={href} aria-current={name === shown ? 'page' : undefined}>
              <Icon name={name} label={label} />
              <span>{label}</span>
            </a>
          </li>
        ))}
      </ul>
      <button
        type="button"
        className={isBehind ? 'more here' : 'more'}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="more" label="…" />
        <span>More</span>
      </button>
    </nav>
  )
}
