package perdure
