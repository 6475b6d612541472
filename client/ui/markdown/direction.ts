import type { Block } from './tree.ts'

type Direction = 'ltr' | 'rtl' | 'auto'

const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/

/** Which way a text is read, by its first letter. */
function directionOf(text: string): Direction {
  const [letter] = /\p{L}/u.exec(text) ?? []
  if (letter === undefined) return 'auto'
  return rightToLeft.test(letter) ? 'rtl' : 'ltr'
}

/**
 * Which way a block is read that holds others: the bar of a quote and the first column of a table stand where that begins.
 * `dir="auto"` would not say it, since a browser leaves out what has a direction of its own.
 */
export function directionIn(block: Block | undefined): Direction {
  switch (block?.type) {
    case 'paragraph':
    case 'heading':
      return directionOf(block.text)
    case 'quote':
      return directionIn(block.children[0])
    case 'list':
      return directionIn(block.items[0]?.children[0])
    case 'table':
      return directionOf(block.head.join(' '))
    default:
      return 'auto'
  }
}
