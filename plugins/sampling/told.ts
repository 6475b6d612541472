import type { SampleDesign, Selection } from './design/record.ts'

/** A design as a tool returns it: the model reads the summary first. */
export const told = async (design: SampleDesign) => {
  const { summarize } = await import('./parts.ts')
  return { summary: summarize(design), ...design }
}
/** The arithmetic of a design, step by step. */
export const explained = async (design: SampleDesign) => {
  const { explain } = await import('./parts.ts')
  return { steps: explain(design) }
}
/** A selection as a tool returns it: the model reads first whether anybody can check the draw. */
export const toldDraw = <Drawn extends Pick<Selection, 'verifiable' | 'source'>>(drawn: Drawn) => ({
  summary: drawn.verifiable
    ? 'Everybody can check this draw: "verifiable" is true.'
    : `Nobody can check how this draw came about (source "${drawn.source}"): "verifiable" is false. ` +
      'Say so; it is refused for submission unless the verifier draws.',
  ...drawn,
})
