import { Fragment, memo, useMemo, useRef, useState, type ReactNode } from 'react'
import { CopyButton } from '../copy.tsx'
import { useWords } from '../words.ts'
import { directionIn } from './direction.ts'
import { parseInline, wordsOf } from './inline.ts'
import { carriesMuch, otherHost, picture, safeAddress, straight } from './links.ts'
import { tokensOf } from './scanner.ts'
import { closedForShow, GrowingText } from './stream.ts'
import type { Block, Inline, Item, References } from './tree.ts'

/** What a page draws itself of a text. */
export interface Renderers {
  readonly code?: (code: { readonly text: string; readonly language: string }) => ReactNode
  readonly image?: (image: { readonly src: string; readonly alt: string }) => ReactNode
  readonly link?: (link: { readonly href: string; readonly children: ReactNode }) => ReactNode
}

/** The props of `Markdown`. */
export interface MarkdownProps {
  readonly text: string
  /** The text still grows: what is open at its end is closed for show. */
  readonly isStreaming?: boolean
  /** The https hosts whose pictures may be loaded; none by itself. */
  readonly imageHosts?: readonly string[]
  readonly renderers?: Renderers
}

/** How many blocks are drawn at once; the others when somebody asks for them. */
const mostBlocks = 2_000
const none: readonly string[] = []

interface Look {
  readonly references: References
  readonly imageHosts: readonly string[]
  readonly renderers: Renderers
}

/** A text with Markdown in it as elements. HTML in it is text, and nothing in it is loaded from elsewhere. */
export function Markdown({
  text,
  isStreaming,
  imageHosts = none,
  renderers = noRenderers,
}: MarkdownProps) {
  const growing = useRef<GrowingText>(undefined)
  growing.current ??= new GrowingText()
  const { blocks, references } = growing.current.read(text)
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? blocks : blocks.slice(0, mostBlocks)
  const look = useMemo(
    () => ({ references, imageHosts, renderers }),
    [references, imageHosts, renderers],
  )
  return (
    <div className="oc-markdown" dir="auto">
      {shown.map((block, nth) => (
        <BlockView
          key={nth}
          block={block}
          look={look}
          isOpen={isStreaming === true && nth === blocks.length - 1}
        />
      ))}
      {shown.length < blocks.length && <ShowLong onShow={() => setWhole(true)} />}
    </div>
  )
}

const noRenderers: Renderers = {}

interface BlockProps {
  readonly block: Block
  readonly look: Look
  readonly isOpen?: boolean
  readonly isTight?: boolean
}

const BlockView = memo(function BlockView({ block, look, isOpen = false, isTight }: BlockProps) {
  switch (block.type) {
    case 'rule':
      return <hr />
    case 'long':
      return <LongText text={block.text} />
    case 'code':
      return <Code {...block} isOpen={isOpen && block.isOpen} render={look.renderers.code} />
    case 'quote':
      return (
        <blockquote dir={directionIn(block)}>
          <Blocks blocks={block.children} look={look} isOpen={isOpen} />
        </blockquote>
      )
    case 'list':
      return <List block={block} look={look} isOpen={isOpen} />
    case 'table':
      return <Table block={block} look={look} />
    case 'heading': {
      const Tag = (['h3', 'h4', 'h5', 'h6'] as const)[Math.min(block.level, 4) - 1] ?? 'h6'
      return (
        <Tag dir="auto">
          <Line text={block.text} look={look} isOpen={isOpen} />
        </Tag>
      )
    }
    case 'paragraph': {
      const line = <Line text={block.text} look={look} isOpen={isOpen} />
      return isTight ? line : <p dir="auto">{line}</p>
    }
  }
})

function Blocks({
  blocks,
  look,
  isOpen,
  isTight,
}: Omit<BlockProps, 'block'> & { readonly blocks: readonly Block[] }) {
  return blocks.map((block, nth) => (
    <BlockView
      key={nth}
      block={block}
      look={look}
      isTight={isTight}
      isOpen={isOpen && nth === blocks.length - 1}
    />
  ))
}

function List({
  block,
  look,
  isOpen,
}: BlockProps & { readonly block: Extract<Block, { type: 'list' }> }) {
  const { items, isTight, start } = block
  const entries = items.map((item, nth) => (
    <Entry
      key={nth}
      item={item}
      look={look}
      isTight={isTight}
      isOpen={isOpen && nth === items.length - 1}
    />
  ))
  return start === undefined ? <ul>{entries}</ul> : <ol start={start}>{entries}</ol>
}

function Entry({
  item,
  look,
  isTight,
  isOpen,
}: Omit<BlockProps, 'block'> & { readonly item: Item }) {
  const { task, children } = item
  return (
    <li dir="auto" className={task === undefined ? undefined : 'oc-task'}>
      {task !== undefined && <Task isDone={task} />}
      <Blocks blocks={children} look={look} isTight={isTight} isOpen={isOpen} />
    </li>
  )
}

function Table({
  block,
  look,
}: BlockProps & { readonly block: Extract<Block, { type: 'table' }> }) {
  const { align, head, rows } = block
  const style = (nth: number) => (align[nth] ? { textAlign: align[nth] } : undefined)
  return (
    <div className="oc-table" tabIndex={0} role="region">
      <table dir={directionIn(block)}>
        <thead>
          <tr>
            {head.map((cell, nth) => (
              <th key={nth} style={style(nth)} dir="auto">
                <Line text={cell} look={look} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => (
            <tr key={row}>
              {cells.map((cell, nth) => (
                <td key={nth} style={style(nth)} dir="auto">
                  <Line text={cell} look={look} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Line({
  text,
  look,
  isOpen,
}: {
  readonly text: string
  readonly look: Look
  readonly isOpen?: boolean
}) {
  const line = useMemo(
    () => parseInline(isOpen ? closedForShow(text) : text, look.references),
    [text, isOpen, look.references],
  )
  return <Pieces pieces={line} look={look} isInLink={false} />
}

function LongText({ text }: { readonly text: string }) {
  const [isShown, show] = useState(false)
  if (!isShown) return <ShowLong onShow={() => show(true)} />
  return (
    <p className="oc-long" dir="auto">
      {text}
    </p>
  )
}

function ShowLong({ onShow }: { readonly onShow: () => void }) {
  const words = useWords()
  return (
    <button type="button" className="oc-quiet" onClick={onShow}>
      {words.showLong}
    </button>
  )
}

function Pieces({
  pieces,
  look,
  isInLink,
}: {
  readonly pieces: readonly Inline[]
  readonly look: Look
  readonly isInLink: boolean
}): ReactNode {
  return pieces.map((piece, nth) => <Fragment key={nth}>{pieceOf(piece, look, isInLink)}</Fragment>)
}

function pieceOf(piece: Inline, look: Look, isInLink: boolean): ReactNode {
  if (typeof piece === 'string') return piece
  if (piece.type === 'break') return <br />
  if (piece.type === 'code') return <code dir="ltr">{straight(piece.text)}</code>
  if (piece.type === 'image') return <Image {...piece} look={look} isInLink={isInLink} />
  const inside = (
    <Pieces pieces={piece.children} look={look} isInLink={isInLink || piece.type === 'link'} />
  )
  if (piece.type === 'link')
    return isInLink ? (
      inside
    ) : (
      <Link href={piece.href} words={wordsOf(piece.children)} look={look} children={inside} />
    )
  const Tag = piece.type
  return <Tag>{inside}</Tag>
}

function Link({
  href,
  words,
  look,
  children,
}: {
  readonly href: string
  readonly words: string
  readonly look: Look
  readonly children: ReactNode
}) {
  const { askLink } = useWords()
  const url = safeAddress(href)
  if (!url) return <bdi>{children}</bdi>
  if (look.renderers.link) return look.renderers.link({ href: url.href, children })
  const host = otherHost(words, url)
  return (
    <>
      <a
        href={url.href}
        target="_blank"
        rel="noopener noreferrer nofollow"
        onClick={(event) => {
          if (carriesMuch(url) && !window.confirm(`${askLink}\n\n${url.href}`))
            event.preventDefault()
        }}
      >
        <bdi>{children}</bdi>
      </a>
      {host !== undefined && <bdi className="oc-faint"> (→ {straight(host)})</bdi>}
    </>
  )
}

function Image({
  src,
  alt,
  look,
  isInLink,
}: {
  readonly src: string
  readonly alt: string
  readonly look: Look
  readonly isInLink: boolean
}) {
  const { image } = useWords()
  const shown = picture(src, look.imageHosts)
  if (shown !== undefined)
    return (
      look.renderers.image?.({ src: shown, alt }) ?? (
        <img src={shown} alt={alt} loading="lazy" referrerPolicy="no-referrer" />
      )
    )
  if (isInLink) return alt
  const url = safeAddress(src)
  const words = `${image}: ${straight(alt)}${url ? ` (${straight(url.hostname)})` : ''}`
  return url ? <Link href={src} words="" look={look} children={words} /> : words
}

interface CodeProps {
  readonly text: string
  readonly language: string
  readonly isOpen: boolean
  readonly render?: Renderers['code']
}

const Code = memo(function Code({ text, language, isOpen, render }: CodeProps) {
  const words = useWords()
  const [wraps, setWraps] = useState(false)
  const shown = straight(text)
  const tokens = useMemo(
    () => (isOpen ? [['', shown] as const] : tokensOf(shown, language)),
    [shown, language, isOpen],
  )
  if (render) return render({ text, language })
  return (
    <div className="oc-code" dir="ltr" data-state={isOpen ? 'open' : 'done'}>
      <div className="oc-code-head">
        <span>{straight(language).slice(0, 40)}</span>
        <button type="button" aria-pressed={wraps} onClick={() => setWraps(!wraps)}>
          {words.wrap}
        </button>
        <CopyButton text={text} />
      </div>
      <pre className={wraps ? 'oc-wraps' : undefined} tabIndex={0}>
        <code>
          {tokens.map(([kind, piece], nth) =>
            kind === '' ? (
              piece
            ) : (
              <span key={nth} className={`oc-${kind}`}>
                {piece}
              </span>
            ),
          )}
        </code>
      </pre>
    </div>
  )
})

/** Whether a task of a list is done, as a box that nobody can press. */
function Task({ isDone }: { readonly isDone: boolean }) {
  const words = useWords()
  return (
    <input
      type="checkbox"
      checked={isDone}
      disabled
      readOnly
      aria-label={isDone ? words.done : words.undone}
    />
  )
}
