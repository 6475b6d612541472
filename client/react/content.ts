import { createElement, Fragment, type ReactNode } from 'react'
import type { RegisteredAction, UIComponents } from '../core/page.ts'
import { useClientIfAny } from './provider.ts'
import { readOutput } from '../core/chat/tool-call.ts'
import type {
  IComponentMetadata,
  IMessage,
  MessageContent,
  ResultPart,
  ToolCall,
} from '../core/records.ts'

/** The props of a component that draws a tool call. */
export interface UIComponentProps {
  readonly id: string
  readonly args: unknown
  readonly status?: 'isRunning' | 'done' | 'error'
  readonly isLoading: boolean
  readonly output?: string
  readonly error?: string
  readonly parts?: readonly ResultPart[]
  readonly toolName: string
  readonly sessionId: string
}

const known = new WeakMap<IMessage, IMessage>()

/** The message with places for its components in its content. The same message gives the same object again. */
export function contentOf(
  message: IMessage,
  sessionId: string,
  actions: ReadonlyMap<string, RegisteredAction>,
): IMessage {
  const { toolCalls, content } = message
  if (!toolCalls?.length || typeof content !== 'string') return message
  let made = known.get(message)
  if (!made) {
    const places = toolCalls.map((call) => placeOf(call, sessionId, actions))
    known.set(message, (made = { ...message, content: content ? [content, ...places] : places }))
  }
  return made
}

function placeOf(
  { name, result: _, ...call }: ToolCall,
  sessionId: string,
  actions: ReadonlyMap<string, RegisteredAction>,
): IComponentMetadata {
  const isAgAction = actions.has(name)
  return {
    name,
    props: { ...call, toolName: name, sessionId, isAgAction, isToolCall: !isAgAction },
  }
}

/** The content of a message as React renders it: its text, and its components from `uiComponents` or from the chat's own. */
export function renderMessageContent(
  content: MessageContent,
  uiComponents?: UIComponents,
): ReactNode {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return isPlace(content) ? render(content, uiComponents) : null
  return createElement(
    Fragment,
    null,
    ...content.map((part, i) =>
      typeof part === 'string' ? part : isPlace(part) ? render(part, uiComponents, i) : null,
    ),
  )
}

const isPlace = (value: unknown): value is IComponentMetadata =>
  typeof value === 'object' && value !== null && 'name' in value && 'props' in value

const render = (place: IComponentMetadata, uiComponents: UIComponents | undefined, i = 0) =>
  createElement(Place, { key: `${place.props.id}-${i}`, place, uiComponents })

/** Looks for its component when it renders, because the chat may know its components only then. */
function Place({
  place,
  uiComponents,
}: {
  place: IComponentMetadata
  uiComponents?: UIComponents
}): ReactNode {
  const client = useClientIfAny()
  const { name, props } = place
  const { args, status, output, error } = props
  const isLoading = status === 'isRunning'
  const all = uiComponents ?? client?.components(props.sessionId) ?? {}
  const action = client?.actions.get(name)
  if (action?.render)
    return action.render({ status, args, result: readOutput(output), error, isLoading })
  // The model chooses the name, so a property that every object inherits must not count as a component.
  const isOwn = Object.hasOwn(all, name)
  const Component = isOwn ? all[name] : ((action && all.AgActionToolCall) ?? all.ToolCall)
  if (!Component) return null
  // A component of that name also gets the arguments as props, except for `key` and `ref`, which are React's.
  const { key: _, ref: __, ...own } = isOwn ? (Object(args) as Record<string, unknown>) : {}
  return createElement(Component, {
    ...props,
    ...own,
    args,
    status,
    isLoading,
    ...(action && { actionName: name }),
  })
}
