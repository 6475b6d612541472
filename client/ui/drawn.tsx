import { Component, lazy, type ReactNode } from 'react'
import type { UIComponents } from '../core/page.ts'
import type { IMessage, ToolCall } from '../core/records.ts'
import { renderMessageContent } from '../react/content.ts'
import { useClientIfAny } from '../react/provider.ts'
import { useLook } from './parts.tsx'

/** The code that shows files is fetched when there is one. */
export const FileList = lazy(async () => ({ default: (await import('./files.tsx')).FileList }))

/** What draws a call in the page's own way: a component of its name, or an action; undefined where nothing does. */
export function useDrawn(message: IMessage): (call: ToolCall) => ReactNode {
  const { uiComponents } = useLook()
  const client = useClientIfAny()
  return ({ id, name }) => {
    if (!isOwn(uiComponents, name) && !client?.actions.get(name)?.render) return undefined
    const { content } = message
    const place = Array.isArray(content)
      ? content.find((part) => typeof part !== 'string' && part.props.id === id)
      : undefined
    // What the model gives a component may not fit, and one that throws takes no other part of the page along.
    return place && <Kept>{renderMessageContent(place, uiComponents)}</Kept>
  }
}

/** The model chooses the name, so a property that every object inherits does not count. */
const isOwn = (components: UIComponents | undefined, name: string): boolean =>
  components !== undefined && name !== 'ToolCall' && Object.hasOwn(components, name)

class Kept extends Component<{ readonly children: ReactNode }, { readonly failed: boolean }> {
  override state = { failed: false }
  static getDerivedStateFromError = () => ({ failed: true })
  override render(): ReactNode {
    return this.state.failed ? null : this.props.children
  }
}
